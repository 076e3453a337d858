"""Parts of LangGraph's API that are not served, each with what to use in its place."""

from fastapi import APIRouter

from stellwerk.protocols.langgraph.unserved import unserved


def unserved_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    crons = "crons are made with POST /crons of this server"
    unserved(router, crons, {"POST": ("/runs/crons", "/runs/crons/search", "/runs/crons/count")})
    unserved(router, crons, {"POST": ("/threads/{thread_id}/runs/crons",)})
    unserved(router, crons, {"PATCH": ("/runs/crons/{cron_id}",), "DELETE": ("/runs/crons/{cron_id}",)})
    kept = "a run is a part of its thread's log and is deleted with the thread"
    unserved(router, kept, {"DELETE": ("/threads/{thread_id}/runs/{run_id}",)})
    unserved(router, "send the runs one by one to POST /runs", {"POST": ("/runs/batch",)})
    unserved(router, "retention in the operator's file says when threads are deleted", {"POST": ("/threads/prune",)})
    unserved(router, "cancel runs one by one, each with its id", {"POST": ("/runs/cancel",)})
    return router
