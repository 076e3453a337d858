The statements of threads: sessions under the ids of clients.

-- name: thread
SELECT id, session_id, metadata, created_at, updated_at FROM thread WHERE tenant = ? AND id = ?;

-- name: thread_of_session
SELECT id, session_id, metadata, created_at, updated_at FROM thread WHERE session_id = ?2 AND tenant = ?1;

-- name: insert_thread
INSERT INTO thread (tenant, id, session_id, metadata, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5);

-- name: set_thread_metadata
UPDATE thread SET metadata = ?3, updated_at = ?4 WHERE tenant = ?1 AND id = ?2;

-- name: delete_thread
DELETE FROM thread WHERE tenant = ? AND id = ?;

-- Threads that have no session yet, the newest first.
-- name: threads_without_session
SELECT id, session_id, metadata, created_at, updated_at FROM thread
WHERE tenant = ?1 AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = thread.session_id)
ORDER BY updated_at DESC, id LIMIT ?2;

-- name: threads_of_sessions
SELECT id, session_id, metadata, created_at, updated_at FROM thread
WHERE session_id IN (SELECT value FROM json_each(?2)) AND tenant = ?1;

-- name: forget_threads
DELETE FROM thread WHERE tenant = ?1 AND session_id = ?2 AND ?3 <> 0;
