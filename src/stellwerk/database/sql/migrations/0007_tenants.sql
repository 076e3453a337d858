-- Tenants, in the order in which they came. The number is what clients with whole numbers call a mandate.
CREATE TABLE tenant (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL
);
INSERT INTO tenant (name, created_at) VALUES ('local', 0);

-- API keys. Of the secret there is only the SHA-256. Revoked ones stay, so that their ids are never used again.
CREATE TABLE api_key (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    user       TEXT,
    role       TEXT NOT NULL CHECK (role IN ('reader', 'member', 'admin')),
    scopes     TEXT,
    hash       BLOB NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL,
    revoked_at REAL,
    last_used  REAL
) WITHOUT ROWID;
CREATE INDEX api_key_tenant ON api_key (tenant, created_at);

-- Who did what: a chain for each tenant, in which each hash covers the entry and the hash before it.
CREATE TABLE audit (
    tenant TEXT NOT NULL,
    number INTEGER NOT NULL,
    entry  BLOB NOT NULL,
    hash   BLOB NOT NULL,
    PRIMARY KEY (tenant, number)
) WITHOUT ROWID;
