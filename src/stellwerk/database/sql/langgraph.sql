The statements of LangGraph's API.

Where traces begin, the newest first.

-- name: trace_starts
SELECT min(position) FROM run WHERE session_id = ? AND tenant = ? GROUP BY trace_id ORDER BY 1 DESC LIMIT 1 OFFSET ?;

-- name: first_run_behind
SELECT id FROM run WHERE session_id = ? AND tenant = ? AND position > ? ORDER BY round LIMIT 1;
