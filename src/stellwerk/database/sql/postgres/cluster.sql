The statements of several nodes on one database. SQLite has one process, and none of them. All times are of the database.

-- A node says for how many seconds it is to be regarded as alive. Returns the time, and until when it was before.
-- name: beat
WITH clock AS (SELECT extract(epoch FROM clock_timestamp())::double precision AS now),
    before AS (SELECT until FROM node WHERE id = $1)
INSERT INTO node (id, role, version, slots, until) SELECT $1, $2, $3, $4, now + $5::double precision FROM clock
ON CONFLICT (id) DO UPDATE SET until = excluded.until
RETURNING (SELECT now FROM clock), (SELECT until FROM before);

-- name: leave_cluster
DELETE FROM node WHERE id = $1;

-- The lock is that of a connection, and ends with it.
-- name: lead
SELECT pg_try_advisory_lock($1);

-- Of nodes that were killed.
-- name: bury_nodes
DELETE FROM node WHERE until < extract(epoch FROM clock_timestamp()) - $1::double precision;

-- name: announce
SELECT pg_notify($1, piece) FROM unnest($2::text[]) AS piece;

-- Running runs whose node is gone, as many as can be driven here.
-- name: orphans
SELECT id, session_id, tenant, position, attempt, epoch FROM run
WHERE state = 'running' AND NOT EXISTS (SELECT 1 FROM node
    WHERE node.id = run.node AND node.until > extract(epoch FROM clock_timestamp()))
ORDER BY queued_at, id LIMIT ?1;

-- A process that is paused in the middle of a transaction keeps its locks until its connections end.
-- name: end_connections_of_gone_nodes
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
JOIN node ON application_name = 'stellwerk ' || right(node.id, 50) AND node.until < extract(epoch FROM clock_timestamp())
WHERE datname = current_database() AND usename = current_user;

-- What watched sessions have behind the positions that are known here: of a list of [session, position]. An event that
-- was packed ends the list of its session.
-- name: events_behind
SELECT known ->> 0, event.position, event.body, event.type
FROM json_array_elements(?1::json) AS known CROSS JOIN LATERAL (
    SELECT position, body, type, sum(length(body)) OVER (ORDER BY position) AS size FROM (
        SELECT position, body, type FROM event
        WHERE session_id = known ->> 0 AND position > (known ->> 1)::bigint ORDER BY position LIMIT 500
    ) AS page
) AS event WHERE event.size <= ?2 ORDER BY 1, 2;

-- name: change_numbers
SELECT what, number FROM change;

-- name: living_nodes
SELECT role, count(*), sum(slots)::bigint FROM node WHERE until > extract(epoch FROM clock_timestamp()) GROUP BY role ORDER BY role;

-- name: heads
SELECT id, last_position, rewrites FROM session WHERE id IN (SELECT json_array_elements_text(?1::json));
