The statements of the log. Every one that serves a reader names the tenant.

-- name: create_session
INSERT INTO session (id, tenant, system, "user", format, touched, created_at, last_activity_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7);

-- name: mark_workflow
UPDATE session SET workflow = 1 WHERE id = ? AND tenant = ?;

-- name: session_defaults
SELECT defaults FROM session WHERE id = ? AND tenant = ?;

-- name: set_session_defaults
UPDATE session SET defaults = ? WHERE id = ? AND tenant = ?;

-- name: is_buried
SELECT 1 FROM tombstone WHERE hash = ?;

-- name: is_taken
SELECT 1 FROM session WHERE id = ?;

An append looks at the fences, inserts the events, then moves the heads: in one transaction, and there is only one at a
time.

-- name: fences_of
SELECT json_group_array(json_array(id, tenant, epoch, batch_no, batch_end, last_position)) FROM session
WHERE id IN (SELECT value FROM json_each(?));

-- name: move_heads
UPDATE session SET batch_no = head.value ->> 3, batch_end = head.value ->> 4, last_position = head.value ->> 5,
    told = told + (head.value ->> 6), touched = ?2, last_activity_at = max(last_activity_at, head.value ->> 7)
FROM json_each(?1) AS head WHERE session.id = head.value ->> 0;

-- name: claim_positions
UPDATE session SET last_position = last_position + ?, told = told + ?, touched = ?,
    last_activity_at = max(last_activity_at, ?)
WHERE id = ? AND tenant = ?
RETURNING last_position;

-- name: raise_epoch
UPDATE session SET epoch = epoch + 1, batch_no = 0 WHERE id = ? AND tenant = ? RETURNING epoch;

-- name: insert_event
INSERT INTO event (session_id, position, type, ts, body) VALUES (?, ?, ?, ?, ?);

The only rewrite there is: what a user removed leaves an empty envelope in its place.

-- name: rewrite_event
UPDATE event SET body = ?1 WHERE session_id = ?2 AND position = ?3
    AND EXISTS (SELECT 1 FROM session WHERE id = ?2 AND tenant = ?4);

Compaction: what was said piece by piece lies in packs, each in the place of its last envelope.

-- name: packed_up_to
SELECT packed FROM session WHERE id = ? AND tenant = ?;

-- name: events_with_times
SELECT position, ts, body FROM event
WHERE session_id = ? AND position > ?
  AND EXISTS (SELECT 1 FROM session WHERE id = event.session_id AND tenant = ?)
ORDER BY position LIMIT ?;

-- name: drop_events_between
DELETE FROM event WHERE session_id = ?1 AND position > ?2 AND position < ?3
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4);

-- name: pack_event
UPDATE event SET type = ?1, body = ?2 WHERE session_id = ?3 AND position = ?4
    AND EXISTS (SELECT 1 FROM session WHERE id = ?3 AND tenant = ?5);

-- name: set_packed
UPDATE session SET packed = ?, told = told - ? WHERE id = ? AND tenant = ?;

-- name: tenants_of_sessions
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM session
    UNION ALL
    SELECT (SELECT min(tenant) FROM session WHERE session.tenant > found.tenant) FROM found
    WHERE found.tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL;

Sessions that are not at work, and whose first event that was not looked at is old. In the order of an index.

-- name: sessions_to_compact
SELECT touched, id FROM session WHERE tenant = ?1 AND (touched, id) > (?3, ?4) AND packed < last_position
    AND (SELECT ts FROM event WHERE session_id = session.id AND position > session.packed ORDER BY position LIMIT 1) < ?2
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = session.id AND run.state <> 'ended')
ORDER BY touched, id LIMIT ?5;

Sessions that are not at work, and in which nothing has happened for long. A fork counts from its beginning.

-- name: sessions_to_delete
SELECT touched, id, last_position FROM session WHERE tenant = ?1 AND (touched, id) > (?3, ?4) AND created_at < ?2
    AND system = coalesce(?6, system)
    AND coalesce((SELECT ts FROM event WHERE session_id = session.id ORDER BY position DESC LIMIT 1), 0) < ?2
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = session.id AND run.state <> 'ended')
ORDER BY touched, id LIMIT ?5;

-- name: read_events
SELECT position, body FROM event
WHERE session_id = ? AND position > ?
  AND EXISTS (SELECT 1 FROM session WHERE id = event.session_id AND tenant = ?)
ORDER BY position LIMIT ?;

-- name: head
SELECT last_position, epoch, system, created_at, "user" FROM session WHERE id = ? AND tenant = ?;

-- name: heads
SELECT id, last_position, 0 FROM session WHERE id IN (SELECT value FROM json_each(?));

The flush of the last change among the sessions of a tenant, a deletion too.

-- name: last_change
SELECT max(coalesce((SELECT max(touched) FROM session WHERE tenant = ?1), 0),
    coalesce((SELECT max(touched) FROM tombstone WHERE tenant = ?1), 0));

-- name: last_flush
SELECT max(coalesce((SELECT max(touched) FROM session), 0), coalesce((SELECT max(touched) FROM tombstone), 0));

-- name: note_readiness
INSERT INTO readiness (id, writes) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET writes = writes + 1;

-- name: remember_answer
INSERT INTO idempotency (tenant, session_id, key, request, answer, created_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: drop_answer
DELETE FROM idempotency WHERE tenant = ? AND session_id = ? AND key = ?;

-- name: recall_answer
SELECT request, answer FROM idempotency WHERE tenant = ? AND session_id = ? AND key = ?;

-- name: bury
INSERT INTO tombstone (hash, tenant, deleted_at, touched, events, remains) VALUES (?, ?, ?, ?, ?, ?);

-- name: unswept
SELECT tenant, remains FROM tombstone WHERE remains IS NOT NULL;

-- name: swept
UPDATE tombstone SET remains = NULL WHERE hash = ?;

What belongs to a session goes with it: every statement named forget_… takes (tenant, session, how many rows).

-- name: forget_events
DELETE FROM event WHERE session_id = ?2 AND ?1 <> '' AND position IN
    (SELECT position FROM event WHERE session_id = ?2 ORDER BY position LIMIT ?3);

-- name: forget_idempotency
DELETE FROM idempotency WHERE tenant = ?1 AND session_id = ?2 AND key IN
    (SELECT key FROM idempotency WHERE tenant = ?1 AND session_id = ?2 LIMIT ?3);

-- name: end_runs_of
UPDATE run SET state = 'ended' WHERE session_id = ? AND tenant = ?;

-- name: forget_runs
DELETE FROM run WHERE id IN (SELECT id FROM run WHERE tenant = ?1 AND session_id = ?2 LIMIT ?3);

-- name: forget_standing
DELETE FROM standing WHERE tenant = ?1 AND session_id = ?2 AND ?3 > 0;

-- name: delete_session
DELETE FROM session WHERE id = ? AND tenant = ?;
