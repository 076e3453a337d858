The statements of runs, their standing, and registered systems.

A later run is behind the others of its tenant in the queue, also if the clock was set back meanwhile.

A run that continues a trace reports to the webhook of the run before it.

-- name: insert_run
INSERT INTO run (id, session_id, tenant, trace_id, round, position, state, epoch, queued_at, begun_at, webhook)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
    max(?9, coalesce((SELECT max(queued_at) + 0.001 FROM run WHERE state <> 'ended' AND tenant = ?3), ?9)),
    CASE ?7 WHEN 'running' THEN ?9 END,
    (SELECT webhook FROM run WHERE session_id = ?2 AND round = ?5 - 1 AND tenant = ?3 AND trace_id = ?4));

-- name: set_run_options
UPDATE run SET start_at = ?1, webhook = coalesce(?2, webhook) WHERE id = ?3 AND tenant = ?4;

-- name: webhook_of_run
SELECT coalesce(run.webhook, tenant.webhook) AS url FROM run JOIN tenant ON tenant.name = run.tenant
WHERE run.id = ? AND run.tenant = ? AND coalesce(run.webhook, tenant.webhook) IS NOT NULL;

-- name: a_delayed_run_is_due
SELECT 1 FROM run WHERE state = 'waiting' AND start_at <= ? LIMIT 1;

-- Runs of a tenant that are still to come, the next one first.
-- name: delayed_runs
SELECT run.id, run.session_id, session.system, run.start_at, run.queued_at FROM run
JOIN session ON session.id = run.session_id
WHERE run.state = 'waiting' AND run.start_at > ?2 AND run.tenant = ?1 ORDER BY run.start_at, run.id LIMIT ?3;

-- Where the trace began that is under way at a position.
-- name: start_of_trace
SELECT min(position) FROM run WHERE session_id = ?1 AND tenant = ?2 AND trace_id = (
    SELECT trace_id FROM run WHERE session_id = ?1 AND tenant = ?2 AND position <= ?3 ORDER BY round DESC LIMIT 1
);

-- Where a run began, or the message that waits for it.
-- name: place_of_run
SELECT position, NULL FROM run WHERE id = ?1 AND session_id = ?2 AND tenant = ?3
UNION ALL
SELECT NULL, message_id FROM inbox WHERE run_id = ?1 AND session_id = ?2 AND tenant = ?3;

-- name: count_waiting
SELECT count(*) FROM run WHERE state <> 'ended' AND tenant = ? AND state = 'waiting';

-- Of those that are not over: how many, and since when. A delayed one counts from its time on.
-- name: runs_open
SELECT CASE WHEN state = 'waiting' AND start_at > ?1 THEN 'delayed' ELSE state END AS shown, count(*),
    min(max(queued_at, coalesce(start_at, queued_at)))
FROM run WHERE state <> 'ended' GROUP BY shown;

-- Who is next: the tenant that has fewer runs under way, or else was served longer ago; of its runs, the one that came first.
-- A delayed run is not in line before its time.
-- name: runs_waiting
WITH RECURSIVE unfinished (tenant) AS (
    SELECT min(tenant) FROM run WHERE state <> 'ended'
    UNION ALL
    SELECT (SELECT min(tenant) FROM run WHERE state <> 'ended' AND tenant > unfinished.tenant) FROM unfinished
    WHERE unfinished.tenant IS NOT NULL
), line AS MATERIALIZED (
    SELECT tenant, (SELECT served_at FROM tenant WHERE name = unfinished.tenant) AS served_at, (
        SELECT count(*) FROM run AS other
        WHERE other.state <> 'ended' AND other.tenant = unfinished.tenant AND other.state = 'running'
    ) AS under_way
    FROM unfinished WHERE tenant IS NOT NULL
)
SELECT id, session_id, tenant, position, attempt, epoch FROM (
    SELECT run.*, served_at, under_way + row_number() OVER (PARTITION BY run.tenant ORDER BY queued_at, id) AS turn
    FROM line AS whose CROSS JOIN run ON run.id IN (
        SELECT id FROM run AS first WHERE first.state <> 'ended' AND first.tenant = whose.tenant
            AND first.state = 'waiting' AND coalesce(first.start_at, ?2) <= ?2 ORDER BY queued_at, id LIMIT ?1
    )
) AS turns ORDER BY turn, served_at, queued_at, id LIMIT ?1;

-- name: sessions_at_work
SELECT DISTINCT session_id FROM run WHERE state <> 'ended' AND tenant = ?;

-- name: states_of_runs
SELECT id, state, epoch FROM run WHERE id IN (SELECT value FROM json_each(?));

-- Of processes that are gone.
-- name: runs_running
SELECT id, session_id, tenant, position, attempt, epoch FROM run
WHERE state <> 'ended' AND state = 'running' ORDER BY queued_at, id;

-- Of this process.
-- name: leases_running
SELECT tenant, session_id, id, epoch FROM run WHERE state <> 'ended' AND state = 'running';

-- name: run_of_lease
SELECT id, session_id, tenant, position, attempt, epoch FROM run
WHERE id = ? AND tenant = ? AND state = 'running' AND epoch = ?;

-- name: unfinished_run
SELECT id, session_id, tenant, position, attempt, epoch FROM run
WHERE session_id = ? AND tenant = ? AND state <> 'ended' ORDER BY round DESC LIMIT 1;

The time in the queue is not the run's. Of one that was under way and lost its driver, its last event counts.

-- name: claim_run
UPDATE run SET state = 'running', epoch = ?, attempt = ?, begun_at = ?,
    seconds = seconds + CASE state WHEN 'running' THEN max(0.0, coalesce(
        (SELECT ts FROM event WHERE session_id = run.session_id ORDER BY position DESC LIMIT 1) - begun_at, 0.0)) ELSE 0.0 END
WHERE id = ? AND tenant = ?;

-- Put back into the queue by its driver. A run that was paused has no epoch while it waits; any other keeps its last one.
-- name: release_run
UPDATE run SET state = 'waiting', attempt = attempt + ?, epoch = CASE WHEN ? <> 0 THEN 0 ELSE epoch END,
    seconds = seconds + max(0.0, coalesce(? - begun_at, 0.0))
WHERE id = ? AND tenant = ? AND state = 'running' AND epoch = ?;

-- Stored with the checkpoint that has the messages, by the driver of the run. A row that has them already is not written.
-- name: keep_waiting_messages
UPDATE run SET unrecorded = ? WHERE id = ? AND tenant = ? AND state = 'running' AND epoch = ? AND unrecorded IS NOT ?;

-- name: waiting_messages
SELECT unrecorded FROM run WHERE id = ? AND tenant = ? AND unrecorded IS NOT NULL;

-- name: end_run
UPDATE run SET state = 'ended', unrecorded = NULL WHERE id = ? AND tenant = ? AND state <> 'ended';

-- name: put_into_inbox
INSERT INTO inbox (session_id, position, tenant, message_id, run_id, system, version, start_at, webhook)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: count_enqueued
SELECT count(*) FROM inbox WHERE session_id = ? AND tenant = ?;

-- name: inbox_of
SELECT position, message_id, run_id, system, version, start_at, webhook FROM inbox WHERE session_id = ? AND tenant = ? ORDER BY position;

-- name: messages_in_inbox
SELECT event.body FROM inbox JOIN event ON event.session_id = inbox.session_id AND event.position = inbox.position
WHERE inbox.session_id = ? AND inbox.tenant = ? ORDER BY inbox.position;

-- name: enqueued_message
SELECT inbox.position, event.body FROM inbox
JOIN event ON event.session_id = inbox.session_id AND event.position = inbox.position
WHERE inbox.session_id = ?1 AND inbox.tenant = ?2 AND (inbox.message_id = ?3 OR inbox.run_id = ?4);

-- The runs that enqueued messages will start, the last one first.
-- name: enqueued_runs
SELECT inbox.run_id, inbox.system, inbox.position, inbox.start_at, event.body FROM inbox
JOIN event ON event.session_id = inbox.session_id AND event.position = inbox.position
WHERE inbox.session_id = ? AND inbox.tenant = ? ORDER BY inbox.position DESC;

-- Its end is the last one in front of the next run, which is found from behind: a run may have thousands of events.
-- name: run_of_session
SELECT id, trace_id, state, position, start_at, start, end_position,
    (SELECT body FROM event WHERE session_id = ?1 AND position = end_position)
FROM (
    SELECT run.*, event.body AS start, CASE state WHEN 'ended' THEN (
        SELECT position FROM event WHERE session_id = ?1 AND type = 'run_end' AND position > run.position AND position <
            coalesce((SELECT position FROM run AS next WHERE session_id = ?1 AND next.round = run.round + 1), 9223372036854775807)
        ORDER BY position DESC LIMIT 1
    ) END AS end_position
    FROM run JOIN event ON event.session_id = run.session_id AND event.position = run.position
    WHERE run.id = ?3 AND run.session_id = ?1 AND run.tenant = ?2
) AS found;

-- name: runs_of_session
SELECT id, trace_id, state, position, start_at, start, end_position,
    (SELECT body FROM event WHERE session_id = ?1 AND position = end_position)
FROM (
    SELECT run.*, event.body AS start, CASE state WHEN 'ended' THEN (
        SELECT position FROM event WHERE session_id = ?1 AND type = 'run_end' AND position > run.position AND position <
            coalesce((SELECT position FROM run AS next WHERE session_id = ?1 AND next.round = run.round + 1), 9223372036854775807)
        ORDER BY position DESC LIMIT 1
    ) END AS end_position
    FROM run JOIN event ON event.session_id = run.session_id AND event.position = run.position
    WHERE run.session_id = ?1 AND run.tenant = ?2 ORDER BY run.round DESC LIMIT ?3 OFFSET ?4
) AS found ORDER BY round DESC;

-- name: empty_inbox
DELETE FROM inbox WHERE session_id = ? AND tenant = ?;

-- name: take_from_inbox
DELETE FROM inbox WHERE session_id = ? AND tenant = ? AND position = ?;

-- name: forget_inbox
DELETE FROM inbox WHERE tenant = ?1 AND session_id = ?2 AND position IN
    (SELECT position FROM inbox WHERE tenant = ?1 AND session_id = ?2 LIMIT ?3);

-- The questions of a session, the newest last.
-- name: questions_of
SELECT body FROM event WHERE session_id = ?1 AND type = 'ask_user'
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?2) ORDER BY position;

-- How those calls of a run have ended that have this in them.
-- name: ends_of_calls
SELECT event.body FROM run JOIN event ON event.session_id = run.session_id AND event.position >= run.position
WHERE run.id = ?1 AND run.tenant = ?2 AND event.type = 'tool_end' AND instr(event.body, ?3) > 0 ORDER BY event.position;

-- The last end of a run in front of a position; with the second form, of one that has these words in it.
-- name: end_before
SELECT position, body FROM event WHERE session_id = ?1 AND type = 'run_end' AND position < ?2 AND instr(body, ?3) > 0
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4) ORDER BY position DESC LIMIT 1;

-- name: start_events_between
SELECT position, body FROM event WHERE session_id = ?1 AND position > ?2 AND position < ?3
    AND type IN ('run_start', 'message', 'subgraph_checkpoint')
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4) ORDER BY position;

-- name: starts_naming
SELECT position, body FROM event WHERE session_id = ?1 AND type = 'run_start' AND instr(body, ?2) > 0
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position;

-- The starts of all runs. Those that a fork copied have no rows of their own, and are in front of all others.
-- name: starts_of_runs
SELECT body FROM (
    SELECT position, body FROM event WHERE session_id = ?1 AND type = 'run_start'
        AND position < coalesce((SELECT position FROM run WHERE session_id = ?1 ORDER BY round LIMIT 1), 9223372036854775807)
    UNION ALL
    SELECT event.position, event.body FROM run
    JOIN event ON event.session_id = run.session_id AND event.position = run.position WHERE run.session_id = ?1
) AS starts WHERE EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?2) ORDER BY position;

-- name: ends_of_runs
SELECT position, body FROM event WHERE session_id = ?1 AND type = 'run_end'
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?2) ORDER BY position;

-- The checkpoint events between two positions, newest first.
-- name: checkpoint_events
SELECT position, body FROM event WHERE session_id = ?1 AND type = 'subgraph_checkpoint' AND position > ?2 AND position <= ?3
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4) ORDER BY position DESC;

-- Changes of the state that clients made behind a position, oldest first.
-- name: client_updates_after
SELECT body FROM event WHERE session_id = ?1 AND type = 'update' AND position > ?2 AND instr(body, '"by":"user"') > 0
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position;

-- name: copy_events
INSERT INTO event (session_id, position, type, ts, body)
SELECT ?1, position, type, ts, body FROM event WHERE session_id = ?2 AND position <= ?3
    AND EXISTS (SELECT 1 FROM session WHERE id = ?2 AND tenant = ?4);

-- name: set_last_position
UPDATE session SET last_position = ?1,
    told = (SELECT coalesce(sum(length(body)), 0) FROM event WHERE session_id = ?2)
WHERE id = ?2 AND tenant = ?3;

-- Where the trace of a run began.
-- name: trace_of_run
SELECT min(position), min(round) FROM run WHERE session_id = ?1 AND tenant = ?2 AND trace_id =
    (SELECT trace_id FROM run WHERE id = ?3 AND tenant = ?2);

-- name: session_of_run
SELECT session_id, position FROM run WHERE id = ? AND tenant = ?;

-- Messages up to a position in which an id occurs, the newest first.
-- name: messages_naming
SELECT body FROM event WHERE session_id = ?1 AND type = 'message' AND position <= ?2 AND instr(body, ?3) > 0
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4) ORDER BY position DESC;

-- name: messages_without_run
SELECT body FROM event WHERE session_id = ?1 AND type = 'message' AND instr(body, '"run_id":') = 0
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?2) ORDER BY position;

-- name: set_standing
INSERT INTO standing (session_id, tenant, state) VALUES (?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET state = excluded.state;

-- name: standing_of
SELECT state FROM standing WHERE session_id = ? AND tenant = ?;

-- The first message is the title. It is near the beginning of a log; if it was removed, no other is looked for far away.
-- The page is cut out first: sorted as a whole, each session of the tenant would have its message looked up.
-- name: standings
SELECT page.id, page.system, page."user", page.created_at, page.last_activity_at, page.last_position, standing.state,
    (SELECT body FROM event WHERE session_id = page.id AND position <= 100 AND type = 'message'
        AND instr(body, '"role":"user"') > 0 AND instr(body, '"content":[]') = 0 ORDER BY position LIMIT 1),
    (SELECT CASE state WHEN 'waiting' THEN start_at END FROM run WHERE session_id = page.id ORDER BY round DESC LIMIT 1)
FROM (SELECT * FROM session WHERE tenant = ? AND (last_activity_at, id) < (?, ?)
    ORDER BY last_activity_at DESC, id DESC LIMIT ?) AS page
LEFT JOIN standing ON standing.session_id = page.id ORDER BY page.last_activity_at DESC, page.id DESC;

-- name: session_standing
SELECT session.id, session.system, session."user", session.created_at, session.last_activity_at, session.last_position,
    standing.state, NULL,
    (SELECT CASE state WHEN 'waiting' THEN start_at END FROM run WHERE session_id = session.id ORDER BY round DESC LIMIT 1)
FROM session LEFT JOIN standing ON standing.session_id = session.id
WHERE session.id = ? AND session.tenant = ?;

-- name: session_shown
SELECT session.id, session.system, session."user", session.created_at, session.last_activity_at, session.last_position,
    standing.state,
    (SELECT body FROM event WHERE session_id = session.id AND position <= 100 AND type = 'message'
        AND instr(body, '"role":"user"') > 0 AND instr(body, '"content":[]') = 0 ORDER BY position LIMIT 1),
    (SELECT CASE state WHEN 'waiting' THEN start_at END FROM run WHERE session_id = session.id ORDER BY round DESC LIMIT 1)
FROM session LEFT JOIN standing ON standing.session_id = session.id
WHERE session.id = ? AND session.tenant = ?;

-- name: sessions_without_standing
SELECT id, tenant FROM session WHERE last_position > 0 AND NOT EXISTS
    (SELECT 1 FROM standing WHERE standing.session_id = session.id) LIMIT 10000;

-- name: turning_points
SELECT body FROM event WHERE session_id = ?1 AND type IN (SELECT value FROM json_each(?2))
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position;

-- name: newest_system
SELECT version, digest, body, created_at FROM system WHERE tenant = ? AND name = ? AND withdrawn = 0
ORDER BY version DESC LIMIT 1;

-- name: last_system
SELECT version, digest FROM system WHERE tenant = ? AND name = ? ORDER BY version DESC LIMIT 1;

-- name: system_names
SELECT DISTINCT name FROM system WHERE tenant = ? AND withdrawn = 0 ORDER BY name LIMIT 50;

-- name: systems
SELECT name, max(version), min(created_at), max(created_at) FROM system
WHERE tenant = CASE WHEN name IN (SELECT value FROM json_each(?5)) THEN ?4 ELSE ?1 END AND name > ?2 AND withdrawn = 0
GROUP BY name ORDER BY name LIMIT ?3;

-- name: system_version
SELECT body, created_at FROM system WHERE tenant = ? AND name = ? AND version = ?;

-- name: system_versions
SELECT version FROM system WHERE tenant = ? AND name = ? AND withdrawn = 0 ORDER BY version;

-- name: system_bodies
SELECT name, version, body FROM system WHERE tenant = ? AND name = ?;

-- name: all_systems
SELECT tenant, name FROM system UNION SELECT tenant, system FROM session;

-- name: insert_system
INSERT INTO system (tenant, name, version, digest, body, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: reinstate_system
UPDATE system SET withdrawn = 0 WHERE tenant = ? AND name = ? AND version = ? AND withdrawn = 1;

-- name: withdraw_system
UPDATE system SET withdrawn = 1 WHERE tenant = ? AND name = ? AND withdrawn = 0;

-- name: purge_systems
DELETE FROM system WHERE withdrawn = 1 AND NOT EXISTS
    (SELECT 1 FROM session WHERE session.tenant = system.tenant AND session.system = system.name);
