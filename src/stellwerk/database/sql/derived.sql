-- Folds of the log, kept for speed alone: if they are dropped, the next start rebuilds them.
CREATE TABLE IF NOT EXISTS standing (
    session_id TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    state      BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS overview (
    session_id TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    position   INTEGER NOT NULL,
    form       INTEGER NOT NULL,
    state      BLOB NOT NULL
) WITHOUT ROWID;

-- One row, which /readyz changes to find out whether a write goes through.
CREATE TABLE IF NOT EXISTS readiness (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    writes INTEGER NOT NULL
);
