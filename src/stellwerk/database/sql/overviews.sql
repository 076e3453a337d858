The statements of overviews: what is kept of each session's folds, and which sessions have gone on since.

-- name: overview_of
SELECT position, state FROM overview WHERE session_id = ? AND tenant = ? AND form = ?;

-- name: events_of_types
SELECT position, body FROM event
WHERE session_id = ?1 AND position > ?2 AND type IN (SELECT value FROM json_each(?3))
  AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4)
ORDER BY position LIMIT ?5;

A session that is gone, or is being deleted, is kept nothing of.

-- name: keep_overview
INSERT INTO overview (session_id, tenant, position, form, state)
SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?2)
ON CONFLICT (session_id) DO UPDATE SET position = excluded.position, form = excluded.form, state = excluded.state
WHERE excluded.position > overview.position OR excluded.form <> overview.form;

Sessions that moved since a flush, and whose overview lacks a state or very many events. One step for each tenant.

-- name: overviews_behind
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM session
    UNION ALL
    SELECT (SELECT min(tenant) FROM session WHERE session.tenant > found.tenant) FROM found
    WHERE found.tenant IS NOT NULL
)
SELECT session.tenant, session.id
FROM found JOIN session ON session.tenant = found.tenant AND session.touched > ?1
LEFT JOIN overview ON overview.session_id = session.id AND overview.form = ?2
WHERE session.last_position > coalesce(overview.position, 0) + ?3 OR EXISTS (
    SELECT 1 FROM event WHERE event.session_id = session.id
      AND event.position > coalesce(overview.position, 0) AND event.type = 'state'
);

-- name: last_touched
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM session
    UNION ALL
    SELECT (SELECT min(tenant) FROM session WHERE session.tenant > found.tenant) FROM found
    WHERE found.tenant IS NOT NULL
)
SELECT coalesce(max((SELECT max(touched) FROM session WHERE session.tenant = found.tenant)), 0) FROM found;

-- name: forget_overview
DELETE FROM overview WHERE tenant = ?1 AND session_id = ?2 AND ?3 > 0;
