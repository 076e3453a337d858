-- Secrets of a tenant, or of one agent system of his, sealed with AES-256-GCM under the master key of this name.
CREATE TABLE secret (
    tenant     TEXT NOT NULL,
    system     TEXT NOT NULL,
    name       TEXT NOT NULL,
    key        TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (tenant, system, name)
) WITHOUT ROWID;
