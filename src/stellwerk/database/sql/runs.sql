The statements of runs, their standing, and registered systems.

-- name: insert_run
INSERT INTO run (id, session_id, tenant, trace_id, round, position, state, epoch, queued_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- Where the trace began that is under way at a position.
-- name: start_of_trace
SELECT min(position) FROM run WHERE session_id = ?1 AND tenant = ?2 AND trace_id = (
    SELECT trace_id FROM run WHERE session_id = ?1 AND tenant = ?2 AND position <= ?3 ORDER BY round DESC LIMIT 1
);

-- name: count_waiting
SELECT count(*) FROM run WHERE state = 'waiting';

-- name: runs_waiting
SELECT id, session_id, tenant, position FROM run WHERE state = 'waiting' ORDER BY queued_at, id LIMIT ?;

-- name: runs_running
SELECT id, session_id, tenant, position FROM run WHERE state = 'running' ORDER BY queued_at, id;

-- name: run_of_lease
SELECT id, session_id, tenant, position FROM run WHERE id = ? AND tenant = ? AND state = 'running' AND epoch = ?;

-- name: claim_run
UPDATE run SET state = 'running', epoch = ? WHERE id = ? AND tenant = ?;

-- name: end_run
UPDATE run SET state = 'ended' WHERE id = ? AND tenant = ?;

-- name: set_standing
INSERT INTO standing (session_id, tenant, state) VALUES (?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET state = excluded.state;

-- name: standing_of
SELECT state FROM standing WHERE session_id = ? AND tenant = ?;

-- name: standings
SELECT session.id, session.system, session.user, session.created_at, session.last_position, standing.state
FROM session LEFT JOIN standing ON standing.session_id = session.id
WHERE session.tenant = ? AND session.id < ? ORDER BY session.id DESC LIMIT ?;

-- name: session_standing
SELECT session.id, session.system, session.user, session.created_at, session.last_position, standing.state
FROM session LEFT JOIN standing ON standing.session_id = session.id
WHERE session.id = ? AND session.tenant = ?;

-- name: sessions_without_standing
SELECT id, tenant FROM session WHERE last_position > 0 AND NOT EXISTS
    (SELECT 1 FROM standing WHERE standing.session_id = session.id);

-- name: turning_points
SELECT body FROM event WHERE session_id = ?1 AND type IN (SELECT value FROM json_each(?2))
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position;

-- name: newest_system
SELECT version, digest, body FROM system WHERE tenant = ? AND name = ? ORDER BY version DESC LIMIT 1;

-- name: system_names
SELECT DISTINCT name FROM system WHERE tenant = ? ORDER BY name LIMIT 50;

-- name: system_version
SELECT body FROM system WHERE tenant = ? AND name = ? AND version = ?;

-- name: insert_system
INSERT INTO system (tenant, name, version, digest, body, created_at) VALUES (?, ?, ?, ?, ?, ?);
