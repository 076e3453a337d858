-- Every table there is, as the migrations leave it; a test compares the two. Read this one.

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

-- The run table is also the queue: waiting, running, ended. position is that of its run_start,
-- attempt how often it was begun: once, and again after each crash.
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
    attempt    INTEGER NOT NULL DEFAULT 1,
    UNIQUE (session_id, round)
) WITHOUT ROWID;
CREATE INDEX run_unfinished ON run (state, queued_at) WHERE state <> 'ended';

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

-- Registered agent systems, every version that a session may still refer to; withdrawn ones only for that.
CREATE TABLE system (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    body       BLOB NOT NULL,
    created_at REAL NOT NULL,
    withdrawn  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, name, version)
) WITHOUT ROWID;

-- LangGraph's checkpoints. thread_id is the id of a session; ns is empty for the
-- outer graph and names the task for a sub-agent. channels holds version and parts
-- of every channel, body the rest of the checkpoint and its metadata.
CREATE TABLE checkpoint (
    tenant    TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    ns        TEXT NOT NULL,
    id        TEXT NOT NULL,
    parent_id TEXT,
    run_id    TEXT,
    channels  BLOB NOT NULL,
    type      TEXT NOT NULL,
    body      BLOB NOT NULL,
    UNIQUE (tenant, thread_id, ns, id)
);
CREATE INDEX checkpoint_run ON checkpoint (tenant, run_id) WHERE run_id IS NOT NULL;

-- What a task wrote before the step it belongs to was complete.
CREATE TABLE checkpoint_write (
    tenant        TEXT NOT NULL,
    thread_id     TEXT NOT NULL,
    ns            TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    task_id       TEXT NOT NULL,
    idx           INTEGER NOT NULL,
    task_path     TEXT NOT NULL,
    channel       TEXT NOT NULL,
    type          TEXT NOT NULL,
    parts         BLOB NOT NULL,
    PRIMARY KEY (tenant, thread_id, ns, checkpoint_id, task_id, idx)
) WITHOUT ROWID;

-- Pieces of values, each once per thread, by the digest of its body. The body of a
-- node is a list of parts and names further items; whoever stores a node stores
-- what is below it in the same transaction. With a rowid: bodies are up to a page long.
CREATE TABLE checkpoint_item (
    tenant    TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    name      TEXT NOT NULL,
    node      INTEGER NOT NULL,
    body      BLOB NOT NULL,
    UNIQUE (tenant, thread_id, name)
);

-- Which session refers to which document. The bytes lie in a file named by the document's id,
-- once for each tenant, for as long as a session refers to them. An upload has no session: its id is empty.
CREATE TABLE document (
    tenant      TEXT NOT NULL,
    document_id TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    filename    TEXT NOT NULL,
    mime        TEXT NOT NULL,
    size        INTEGER NOT NULL,
    created_at  REAL NOT NULL,
    PRIMARY KEY (tenant, document_id, session_id)
) WITHOUT ROWID;
CREATE INDEX document_session ON document (tenant, session_id);

-- A number for each document, for clients that count their files. None is ever given twice.
CREATE TABLE file_number (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT NOT NULL,
    document_id TEXT NOT NULL,
    UNIQUE (tenant, document_id)
);

-- Folds of the log, kept for speed alone: drop them and they are built anew at the next start.
CREATE TABLE standing (
    session_id TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    state      BLOB NOT NULL
) WITHOUT ROWID;

-- position is that of the last event in it, form the version of the folds that made it.
CREATE TABLE overview (
    session_id TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    position   INTEGER NOT NULL,
    form       INTEGER NOT NULL,
    state      BLOB NOT NULL
) WITHOUT ROWID;
