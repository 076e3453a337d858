The statements of the checkpoint saver. Every one of them names the tenant.

-- Of a list of [session, tenant, epoch]: which must not write any more. Without an epoch there is no fence.
-- name: epochs_over
SELECT key, value ->> 2 FROM json_each(?)
WHERE value ->> 2 IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM session WHERE id = value ->> 0 AND tenant = value ->> 1 AND epoch = value ->> 2);

-- name: put_checkpoint
INSERT INTO checkpoint (tenant, thread_id, ns, id, parent_id, run_id, channels, type, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, thread_id, ns, id) DO UPDATE SET
    parent_id = excluded.parent_id, run_id = excluded.run_id,
    channels = excluded.channels, type = excluded.type, body = excluded.body;

-- name: put_checkpoint_write
INSERT INTO checkpoint_write (tenant, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, type, parts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, thread_id, ns, checkpoint_id, task_id, idx) DO NOTHING;

-- name: replace_checkpoint_write
INSERT INTO checkpoint_write (tenant, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, type, parts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, thread_id, ns, checkpoint_id, task_id, idx) DO UPDATE SET
    task_path = excluded.task_path, channel = excluded.channel, type = excluded.type, parts = excluded.parts;

-- Of a list of [tenant, thread, name]: which are not there yet.
-- name: items_lacking
SELECT json_group_array(key) FROM json_each(?) WHERE NOT EXISTS (
    SELECT 1 FROM checkpoint_item WHERE tenant = value ->> 0 AND thread_id = value ->> 1 AND name = value ->> 2
);

-- name: put_item
INSERT INTO checkpoint_item (tenant, thread_id, name, node, body) VALUES (?, ?, ?, ?, ?);

-- name: read_checkpoint
SELECT id, parent_id, channels, type, body FROM checkpoint
WHERE tenant = ? AND thread_id = ? AND ns = ? AND id = ?;

Whether a state of the outermost graph is stored.

-- name: has_checkpoint
SELECT 1 FROM checkpoint WHERE tenant = ? AND thread_id = ? AND ns = '' AND id = ?;

The latest is the one that was stored last: LangGraph makes ids of the time of day, and a clock may be set back.

-- name: read_latest_checkpoint
SELECT id, parent_id, channels, type, body FROM checkpoint
WHERE rowid = (SELECT max(rowid) FROM checkpoint WHERE tenant = ? AND thread_id = ? AND ns = ?);

-- name: read_checkpoint_writes
SELECT task_id, channel, type, parts FROM checkpoint_write
WHERE tenant = ? AND thread_id = ? AND ns = ? AND checkpoint_id = ?
ORDER BY task_path, task_id, idx;

-- name: read_checkpoint_items
SELECT name, node, body FROM checkpoint_item
WHERE tenant = ? AND thread_id = ? AND name IN (SELECT value FROM json_each(?));

-- name: list_checkpoints_of_thread
SELECT thread_id, ns, id FROM checkpoint
WHERE tenant = ? AND thread_id = ?
  AND coalesce(ns = ?, TRUE) AND coalesce(id = ?, TRUE) AND coalesce(id < ?, TRUE)
ORDER BY rowid DESC;

-- name: list_checkpoints
SELECT thread_id, ns, id FROM checkpoint
WHERE tenant = ? AND coalesce(id < ?, TRUE)
ORDER BY rowid DESC;

-- name: lineage_of_thread
SELECT ns, id, parent_id, channels FROM checkpoint WHERE tenant = ? AND thread_id = ? ORDER BY ns, rowid DESC;

-- name: channels_of_thread
SELECT channels FROM checkpoint WHERE tenant = ? AND thread_id = ?;

-- name: writes_of_thread
SELECT parts FROM checkpoint_write WHERE tenant = ? AND thread_id = ?;

-- name: items_of_thread
SELECT name, CASE WHEN node = 1 THEN body END FROM checkpoint_item WHERE tenant = ? AND thread_id = ?;

What a user removed is taken out of every state that has it.

-- name: edit_checkpoint
UPDATE checkpoint SET channels = ? WHERE tenant = ? AND thread_id = ? AND ns = ? AND id = ?;

-- name: edit_checkpoint_write
UPDATE checkpoint_write SET type = ?, parts = ?
WHERE tenant = ? AND thread_id = ? AND ns = ? AND checkpoint_id = ? AND task_id = ? AND idx = ?;

-- name: all_writes_of_thread
SELECT ns, checkpoint_id, task_id, idx, channel, type, parts FROM checkpoint_write WHERE tenant = ? AND thread_id = ?;

-- name: delete_checkpoint
DELETE FROM checkpoint WHERE tenant = ? AND thread_id = ? AND ns = ? AND id = ?;

-- name: delete_writes_of_checkpoint
DELETE FROM checkpoint_write WHERE tenant = ? AND thread_id = ? AND ns = ? AND checkpoint_id = ?;

-- name: delete_checkpoint_write
DELETE FROM checkpoint_write
WHERE tenant = ? AND thread_id = ? AND ns = ? AND checkpoint_id = ? AND task_id = ? AND idx = ?;

-- name: delete_checkpoint_item
DELETE FROM checkpoint_item WHERE tenant = ? AND thread_id = ? AND name = ?;

Run also when a session is deleted, like all that is named forget_….

-- name: forget_checkpoints
DELETE FROM checkpoint WHERE rowid IN
    (SELECT rowid FROM checkpoint WHERE tenant = ?1 AND thread_id = ?2 LIMIT ?3);

-- name: forget_checkpoint_writes
DELETE FROM checkpoint_write WHERE tenant = ?1 AND thread_id = ?2 AND (ns, checkpoint_id, task_id, idx) IN
    (SELECT ns, checkpoint_id, task_id, idx FROM checkpoint_write WHERE tenant = ?1 AND thread_id = ?2 LIMIT ?3);

-- name: forget_checkpoint_items
DELETE FROM checkpoint_item WHERE rowid IN
    (SELECT rowid FROM checkpoint_item WHERE tenant = ?1 AND thread_id = ?2 LIMIT ?3);

-- One checkpoint of the outermost graph, into another thread and behind another one there.
-- name: copy_checkpoint
INSERT INTO checkpoint (tenant, thread_id, ns, id, parent_id, run_id, channels, type, body)
SELECT tenant, ?1, ns, id, ?5, run_id, channels, type, body FROM checkpoint
WHERE tenant = ?2 AND thread_id = ?3 AND ns = '' AND id = ?4;

-- name: copy_writes_of_checkpoint
INSERT INTO checkpoint_write (tenant, thread_id, ns, checkpoint_id, task_id, idx, task_path, channel, type, parts)
SELECT tenant, ?1, ns, checkpoint_id, task_id, idx, task_path, channel, type, parts FROM checkpoint_write
WHERE tenant = ?2 AND thread_id = ?3 AND ns = '' AND checkpoint_id = ?4;

-- name: copy_checkpoint_items
INSERT INTO checkpoint_item (tenant, thread_id, name, node, body)
SELECT tenant, ?, name, node, body FROM checkpoint_item
WHERE tenant = ? AND thread_id = ?
ON CONFLICT (tenant, thread_id, name) DO NOTHING;
