"""An app whose users belong to isolated teams: it identifies the user of each request.

python -m uvicorn --app-dir examples/embedding teams:app
"""

from fastapi import FastAPI, HTTPException
from starlette.requests import HTTPConnection

import stellwerk
from stellwerk.settings import Settings

# Yours come from your sessions, your database or your identity provider. The team "local" runs the server.
USERS = {
    "let-me-in": stellwerk.Principal("local", "admin", user="ada"),
    "me-too": stellwerk.Principal("sales", "member", user="bo"),
    "only-look": stellwerk.Principal("sales", "reader", user="cy"),
}


async def identify(connection: HTTPConnection) -> stellwerk.Principal:
    """Asked for each request and each WebSocket."""
    user = USERS.get(connection.headers.get("authorization", "").removeprefix("Bearer "))
    if user is None:
        raise HTTPException(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
    return user


agents = stellwerk.create_app(Settings(demo=True), identify=identify)  # with the demo, as it has no system of its own

app = FastAPI(lifespan=lambda _: stellwerk.opened(agents))
app.mount("/agents", agents)
