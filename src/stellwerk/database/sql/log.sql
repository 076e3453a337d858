The statements of the log. Every one that serves a reader names the tenant.

-- name: create_session
INSERT INTO session (id, tenant, system, user, format, touched, created_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: is_buried
SELECT 1 FROM tombstone WHERE hash = ?;

-- name: is_taken
SELECT 1 FROM session WHERE id = ?;

An append looks at the fences, then moves the heads: in one transaction, and there is only one at a time.

-- name: fences_of
SELECT json_group_array(json_array(id, tenant, epoch, batch_no, batch_end, last_position)) FROM session
WHERE id IN (SELECT value FROM json_each(?));

-- name: move_heads
UPDATE session SET batch_no = head.value ->> 3, batch_end = head.value ->> 4, last_position = head.value ->> 5,
    touched = ?2
FROM json_each(?1) AS head WHERE session.id = head.value ->> 0;

-- name: claim_positions_external
UPDATE session SET last_position = last_position + ?, touched = ?
WHERE id = ? AND tenant = ?
RETURNING last_position;

-- name: raise_epoch
UPDATE session SET epoch = epoch + 1, batch_no = 0 WHERE id = ? AND tenant = ? RETURNING epoch;

-- name: insert_event
INSERT INTO event (session_id, position, type, ts, body) VALUES (?, ?, ?, ?, ?);

The only rewrite there is: what somebody had removed leaves an empty envelope in its place.

-- name: rewrite_event
UPDATE event SET body = ?1 WHERE session_id = ?2 AND position = ?3
    AND EXISTS (SELECT 1 FROM session WHERE id = ?2 AND tenant = ?4);

-- name: read_events
SELECT position, body FROM event
WHERE session_id = ? AND position > ?
  AND EXISTS (SELECT 1 FROM session WHERE id = event.session_id AND tenant = ?)
ORDER BY position LIMIT ?;

-- name: head
SELECT last_position, epoch, system, created_at, user FROM session WHERE id = ? AND tenant = ?;

-- name: heads
SELECT id, last_position FROM session WHERE id IN (SELECT value FROM json_each(?));

-- name: touched_since
SELECT id, touched, last_position FROM session WHERE tenant = ?1 AND touched > ?2 AND touched <= (
    SELECT max(touched) FROM (
        SELECT touched FROM session WHERE tenant = ?1 AND touched > ?2 ORDER BY touched LIMIT ?3
    )
) ORDER BY touched, id;

-- name: last_flush
SELECT max(coalesce((SELECT max(touched) FROM session), 0), coalesce((SELECT max(touched) FROM tombstone), 0));

-- name: remember_answer
INSERT INTO idempotency (tenant, session_id, key, request, answer, created_at) VALUES (?, ?, ?, ?, ?, ?);

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
DELETE FROM event WHERE session_id = ?2 AND ?1 IS NOT NULL AND position IN
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
