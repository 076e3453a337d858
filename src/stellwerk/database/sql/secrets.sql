The statements of secrets. Values are sealed before they come here.

-- name: sealed_secrets
SELECT tenant, system, name, key, sealed FROM secret ORDER BY tenant, system, name;

-- name: keys_of_secrets
SELECT DISTINCT key FROM secret;

-- name: secrets_of
SELECT system, name, created_at, updated_at FROM secret WHERE tenant = ? ORDER BY name, system;

-- name: count_other_secrets
SELECT count(*) FROM secret WHERE tenant = ?1 AND NOT (system = ?2 AND name = ?3);

-- name: put_secret
INSERT INTO secret (tenant, system, name, key, sealed, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
ON CONFLICT (tenant, system, name) DO UPDATE SET key = excluded.key, sealed = excluded.sealed, updated_at = excluded.updated_at;

-- name: delete_secret
DELETE FROM secret WHERE tenant = ? AND system = ? AND name = ?;

-- name: rewrap_secret
UPDATE secret SET key = ?4, sealed = ?5 WHERE tenant = ?1 AND system = ?2 AND name = ?3;
