The statements of tenants, their keys, and the record of what was done.

-- name: insert_tenant
INSERT INTO tenant (name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: tenants
SELECT number, name, created_at, locked FROM tenant ORDER BY number;

-- name: tenant_number
SELECT number FROM tenant WHERE name = ?;

-- name: lock_tenant
UPDATE tenant SET locked = ?2 WHERE name = ?1;

-- name: tenant_is_locked
SELECT 1 FROM tenant WHERE name = ? AND locked = 1;

-- name: insert_key
INSERT INTO api_key (id, tenant, name, "user", role, scopes, hash, created_at, expires_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE EXISTS (SELECT 1 FROM tenant WHERE name = ?2);

-- name: keys
SELECT id, tenant, name, "user", role, scopes, hash, created_at, expires_at, revoked_at, last_used
FROM api_key ORDER BY created_at, id;

-- name: valid_keys_named
SELECT count(*) FROM api_key WHERE tenant = ?1 AND name = ?2 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > ?3);

-- name: count_keys
SELECT count(*) FROM api_key WHERE tenant = ?;

-- name: drop_invalid_key
DELETE FROM api_key WHERE id = (SELECT id FROM api_key WHERE tenant = ?1
    AND (revoked_at IS NOT NULL OR expires_at <= ?2) ORDER BY created_at, id LIMIT 1) RETURNING id;

-- name: revoke_key
UPDATE api_key SET revoked_at = ?3 WHERE tenant = ?1 AND id = ?2 AND revoked_at IS NULL;

-- name: key_was_used
UPDATE api_key SET last_used = ?2 WHERE id = ?1;

-- name: last_audit
SELECT number, hash FROM audit WHERE tenant = ? ORDER BY number DESC LIMIT 1;

-- name: insert_audit
INSERT INTO audit (tenant, number, entry, hash) VALUES (?, ?, ?, ?);

-- name: audited_tenants
SELECT tenant FROM audit UNION SELECT name FROM tenant WHERE name <> 'local' ORDER BY tenant;

-- name: audit_page
SELECT number, entry, hash FROM audit WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?;
