The statements of webhooks, crons and sessions of one run.

-- name: put_delivery
INSERT INTO delivery (id, tenant, session_id, run_id, url, body, state, created_at, next_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?7, ?7) ON CONFLICT DO NOTHING;

-- The next attempts that are due: of each tenant the first ones.
-- name: deliveries_due
SELECT id, tenant FROM (
    SELECT id, tenant, next_at, row_number() OVER (PARTITION BY tenant ORDER BY next_at, id) AS turn
    FROM delivery WHERE state = 'pending' AND next_at <= ?1
) AS turns WHERE turn <= ?2 ORDER BY turn, next_at LIMIT ?3;

-- An attempt begins; if its process dies, another one begins at the given time.
-- name: claim_delivery
UPDATE delivery SET attempts = attempts + 1, outcome = NULL, next_at = ?2 WHERE id = ?1 AND state = 'pending' AND next_at <= ?3
RETURNING id, tenant, session_id, run_id, url, body, attempts;

-- name: delivery_succeeded
UPDATE delivery SET state = 'delivered', outcome = ?3, ended_at = ?4, body = x'' WHERE id = ?1 AND tenant = ?2;

-- name: delivery_failed
UPDATE delivery SET state = 'failed', outcome = ?3, ended_at = ?4 WHERE id = ?1 AND tenant = ?2 AND state = 'pending';

-- name: delivery_postponed
UPDATE delivery SET outcome = ?3, next_at = ?4 WHERE id = ?1 AND tenant = ?2 AND state = 'pending';

-- name: retry_delivery
UPDATE delivery SET state = 'pending', attempts = 0, next_at = ?3, ended_at = NULL
WHERE id = ?1 AND tenant = ?2 AND state = 'failed';

-- name: delivery_state
SELECT state FROM delivery WHERE id = ? AND tenant = ?;

-- name: delivery_page
SELECT id, session_id, run_id, url, state, attempts, outcome, created_at, next_at, ended_at FROM delivery
WHERE tenant = ?1 AND (created_at, id) < (?2, ?3) AND session_id = coalesce(?4, session_id) AND state = coalesce(?5, state)
ORDER BY created_at DESC, id DESC LIMIT ?6;

-- name: deliveries_pending
SELECT count(*) FROM delivery WHERE state = 'pending';

-- name: forget_deliveries
DELETE FROM delivery WHERE id IN (SELECT id FROM delivery WHERE tenant = ?1 AND session_id = ?2 LIMIT ?3);

-- name: count_crons
SELECT count(*) FROM cron WHERE tenant = ?;

-- name: insert_cron
INSERT INTO cron (id, tenant, session_id, spec, enabled, created_at, next_at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: change_cron
UPDATE cron SET session_id = ?3, spec = ?4, enabled = ?5, next_at = ?6 WHERE id = ?1 AND tenant = ?2;

-- name: delete_cron
DELETE FROM cron WHERE id = ? AND tenant = ?;

-- name: cron_of
SELECT id, spec, enabled, created_at, next_at, last FROM cron WHERE id = ? AND tenant = ?;

-- name: cron_page
SELECT id, spec, enabled, created_at, next_at, last FROM cron WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?;

-- name: crons_due
SELECT tenant, id, spec, next_at FROM cron WHERE enabled = 1 AND next_at <= ? ORDER BY next_at, id LIMIT ?;

-- A tick is over. Nothing happens if the cron was changed meanwhile, or another process was faster.
-- name: advance_cron
UPDATE cron SET next_at = ?4, last = ?5 WHERE id = ?1 AND tenant = ?2 AND next_at = ?3;

-- name: forget_crons
DELETE FROM cron WHERE id IN (SELECT id FROM cron WHERE tenant = ?1 AND session_id = ?2 LIMIT ?3);

-- name: mark_ephemeral
UPDATE session SET ephemeral = 1 WHERE id = ? AND tenant = ?;

-- Sessions of one run that is over, unless its end is still to be reported, or a question is open.
-- name: ephemeral_sessions
SELECT tenant, id, last_position FROM session WHERE ephemeral = 1 AND last_activity_at < ?1
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = session.id AND run.state <> 'ended')
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.session_id = session.id AND delivery.tenant = session.tenant
        AND delivery.state = 'pending')
    AND NOT EXISTS (SELECT 1 FROM standing WHERE standing.session_id = session.id
        AND CAST(standing.state AS TEXT) ->> '$.awaiting_user_input')
ORDER BY last_activity_at LIMIT ?2;

-- name: default_webhook
SELECT webhook FROM tenant WHERE name = ?;

-- name: set_default_webhook
UPDATE tenant SET webhook = ?2 WHERE name = ?1;
