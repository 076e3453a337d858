-- Folds of the log, kept for speed alone: drop them and they are built anew at the next start.
CREATE TABLE IF NOT EXISTS standing (
    session_id TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    state      BLOB NOT NULL
) WITHOUT ROWID;
