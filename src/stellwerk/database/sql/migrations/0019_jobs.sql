-- A run may start later than it was accepted, and its end may be reported to an address (a webhook).
ALTER TABLE run ADD COLUMN start_at REAL;
ALTER TABLE run ADD COLUMN webhook TEXT;
CREATE INDEX run_delayed ON run (start_at) WHERE state = 'waiting' AND start_at IS NOT NULL;
ALTER TABLE inbox ADD COLUMN start_at REAL;
ALTER TABLE inbox ADD COLUMN webhook TEXT;

-- A session of one run, which is deleted a while after its end.
ALTER TABLE session ADD COLUMN ephemeral INTEGER NOT NULL DEFAULT 0;
CREATE INDEX session_ephemeral ON session (last_activity_at) WHERE ephemeral = 1;

-- The outbox of webhooks, filled in the transaction that ends a run. next_at is the next attempt of a pending one; while
-- an attempt is under way, it is when another process may try again.
CREATE TABLE delivery (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    url        TEXT NOT NULL,
    body       BLOB NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts   INTEGER NOT NULL DEFAULT 0,
    outcome    TEXT,
    created_at REAL NOT NULL,
    next_at    REAL NOT NULL,
    ended_at   REAL
) WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery (next_at) WHERE state = 'pending';
CREATE INDEX delivery_listed ON delivery (tenant, created_at, id);
CREATE INDEX delivery_session ON delivery (session_id, tenant);

-- Crons. spec is what starts and when, as JSON; next_at is the next tick, and last the outcome of the last one, as JSON.
CREATE TABLE cron (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    session_id TEXT,
    spec       BLOB NOT NULL,
    enabled    INTEGER NOT NULL,
    created_at REAL NOT NULL,
    next_at    REAL NOT NULL,
    last       BLOB
) WITHOUT ROWID;
CREATE INDEX cron_due ON cron (next_at) WHERE enabled = 1;
CREATE INDEX cron_listed ON cron (tenant, id);
