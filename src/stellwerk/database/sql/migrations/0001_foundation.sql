-- A session is a row; its story is in event. last_position numbers the story,
-- epoch fences writers; batch_no, and where that batch ended, make a repeated append harmless.
CREATE TABLE session (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    system        TEXT NOT NULL,
    user          TEXT,
    format        INTEGER NOT NULL,
    epoch         INTEGER NOT NULL DEFAULT 0,
    batch_no      INTEGER NOT NULL DEFAULT 0,
    batch_end     INTEGER NOT NULL DEFAULT 0,
    last_position INTEGER NOT NULL DEFAULT 0,
    touched       INTEGER NOT NULL,
    created_at    REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX session_touched ON session (tenant, touched);

-- body is the envelope's final JSON, written once and never parsed on its way out.
CREATE TABLE event (
    session_id TEXT NOT NULL,
    position   INTEGER NOT NULL,
    type       TEXT NOT NULL,
    ts         REAL NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (session_id, position)
) WITHOUT ROWID;

-- What was answered to a request with this key; the same key gets the same answer.
CREATE TABLE idempotency (
    tenant     TEXT NOT NULL,
    session_id TEXT NOT NULL,
    key        TEXT NOT NULL,
    request    TEXT NOT NULL,
    answer     BLOB NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (tenant, session_id, key)
) WITHOUT ROWID;

-- A deleted session leaves the hash of its id, so that nobody can write it again.
-- remains is its id, until everything that belonged to it is gone.
CREATE TABLE tombstone (
    hash       TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    deleted_at REAL NOT NULL,
    touched    INTEGER NOT NULL,
    events     INTEGER NOT NULL,
    remains    TEXT
) WITHOUT ROWID;
CREATE INDEX tombstone_remains ON tombstone (remains) WHERE remains IS NOT NULL;

-- The run table is also the queue: waiting, running, ended. position is that of its run_start.
CREATE TABLE run (
    id         TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    trace_id   TEXT NOT NULL,
    round      INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'ended')),
    epoch      INTEGER NOT NULL,
    queued_at  REAL NOT NULL,
    UNIQUE (session_id, round)
) WITHOUT ROWID;
CREATE INDEX run_unfinished ON run (state, queued_at) WHERE state <> 'ended';

-- Registered agent systems, every version that a session may still refer to.
CREATE TABLE system (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    body       BLOB NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (tenant, name, version)
) WITHOUT ROWID;
