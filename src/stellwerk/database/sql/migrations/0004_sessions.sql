-- How often a run was begun: once, and again after each crash.
ALTER TABLE run ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;

-- Messages that came while their session was busy, in order; each starts a round when its turn has come.
CREATE TABLE inbox (
    session_id TEXT NOT NULL,
    position   INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    message_id TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    system     TEXT NOT NULL,
    version    INTEGER NOT NULL,
    PRIMARY KEY (session_id, position)
) WITHOUT ROWID;

-- Folded anew at the next start: it knows more now.
DROP TABLE IF EXISTS standing;
