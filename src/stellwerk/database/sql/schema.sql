-- Every table there is, as the migrations leave it; a test compares the two. Read this one.

-- A session is a row; its story is in event. last_position numbers the story,
-- epoch fences writers; batch_no, and where that batch ended, make a repeated append harmless.
-- packed is how far compaction has come.
-- told and filed are the bytes of its events and of its documents; steps, tokens and seconds are those of its runs
-- that are over. workflow says that it was started as one, and not as a chat. last_activity_at is when its last event
-- happened, or when it was begun. defaults are config and context for its messages, in JSON. An ephemeral one is
-- deleted a while after the end of its run.
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
    created_at    REAL NOT NULL,
    packed        INTEGER NOT NULL DEFAULT 0,
    told          INTEGER NOT NULL DEFAULT 0,
    filed         INTEGER NOT NULL DEFAULT 0,
    steps         INTEGER NOT NULL DEFAULT 0,
    tokens        INTEGER NOT NULL DEFAULT 0,
    seconds       REAL NOT NULL DEFAULT 0,
    workflow      INTEGER NOT NULL DEFAULT 0,
    last_activity_at REAL NOT NULL DEFAULT 0,
    defaults      BLOB,
    ephemeral     INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX session_touched ON session (tenant, touched);
CREATE INDEX session_active ON session (tenant, last_activity_at, id);
CREATE INDEX session_listed ON session (tenant, id);
CREATE INDEX session_workflow ON session (tenant, id) WHERE workflow = 1;
CREATE INDEX session_ephemeral ON session (last_activity_at) WHERE ephemeral = 1;

-- body is the envelope's final JSON, written once and never parsed on its way out. In old sessions
-- a stretch of pieces of text is one row, of type 'packed', in the place of the last of them: their bodies, compressed.
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
CREATE INDEX tombstone_touched ON tombstone (tenant, touched);

-- The run table is also the queue: waiting, running, ended. position is that of its run_start,
-- attempt how often it was begun: once, and again after each crash; begun_at when it was taken up last, seconds how long
-- it had been under way before that; unrecorded has the messages that its state has and its log does not
-- have yet, one per line. start_at is when a delayed run may start, webhook where its end is reported. Queries must say state <> 'ended', or they look at every run that ever was.
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
    begun_at   REAL,
    seconds    REAL NOT NULL DEFAULT 0,
    unrecorded BLOB,
    start_at   REAL,
    webhook    TEXT,
    UNIQUE (session_id, round)
) WITHOUT ROWID;
CREATE INDEX run_unfinished ON run (tenant, state, queued_at) WHERE state <> 'ended';
CREATE INDEX run_delayed ON run (start_at) WHERE state = 'waiting' AND start_at IS NOT NULL;

-- Messages that came while their session was busy, in order; each starts a round when its turn has come.
CREATE TABLE inbox (
    session_id TEXT NOT NULL,
    position   INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    message_id TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    system     TEXT NOT NULL,
    version    INTEGER NOT NULL,
    start_at   REAL,
    webhook    TEXT,
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

-- A number for each document, for clients that count their files. Each tenant counts for itself, as gaps would tell it
-- what others do; none is ever given twice.
CREATE TABLE file_number (
    tenant      TEXT NOT NULL,
    number      INTEGER NOT NULL,
    document_id TEXT NOT NULL,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, document_id)
) WITHOUT ROWID;
CREATE TABLE last_file_number (
    tenant TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER file_numbered AFTER INSERT ON file_number BEGIN
    INSERT INTO last_file_number (tenant, number) VALUES (NEW.tenant, NEW.number)
    ON CONFLICT (tenant) DO UPDATE SET number = excluded.number;
END;

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

-- One row, which /readyz changes to find out whether a write goes through.
CREATE TABLE readiness (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    writes INTEGER NOT NULL
);

-- Tenants, in the order in which they came. The number is what clients with whole numbers call a mandate.
-- held is how many bytes all events of a tenant have, and its documents, each of them once; served_at when a run of it
-- was last taken up: tenants take turns.
CREATE TABLE tenant (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    held       INTEGER NOT NULL DEFAULT 0,
    served_at  REAL NOT NULL DEFAULT 0,
    locked     INTEGER NOT NULL DEFAULT 0,
    webhook    TEXT
);

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

-- What a tenant may use, as JSON; one without a row has no limits.
CREATE TABLE tenant_limits (
    tenant TEXT PRIMARY KEY,
    limits BLOB NOT NULL
) WITHOUT ROWID;

-- What was used, by day (UTC), user, system and model; counted when a run ends, or goes with its session. It outlives both.
-- The row without a model has what no model has: runs, their seconds, tool calls, and model calls that nobody counted.
CREATE TABLE usage (
    tenant        TEXT NOT NULL,
    day           TEXT NOT NULL,
    user          TEXT NOT NULL,
    system        TEXT NOT NULL,
    model         TEXT NOT NULL,
    model_calls   INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    tool_calls    INTEGER NOT NULL,
    runs          INTEGER NOT NULL,
    seconds       REAL NOT NULL,
    PRIMARY KEY (tenant, day, user, system, model)
) WITHOUT ROWID;

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

-- Sessions under the ids of clients of other protocols. A thread may be there before its session, which gets the id
-- in session_id. metadata is the client's, as JSON.
CREATE TABLE thread (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    session_id TEXT NOT NULL,
    metadata   BLOB NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX thread_session ON thread (session_id);

-- Who holds how much is counted where it changes, whoever changes it; so is whose turn it is.
CREATE TRIGGER run_begun AFTER INSERT ON run WHEN NEW.begun_at IS NOT NULL BEGIN
    UPDATE tenant SET served_at = NEW.begun_at WHERE name = NEW.tenant;
END;
CREATE TRIGGER run_taken_up AFTER UPDATE OF begun_at ON run BEGIN
    UPDATE tenant SET served_at = NEW.begun_at WHERE name = NEW.tenant;
END;
CREATE TRIGGER session_told AFTER UPDATE OF told ON session BEGIN
    UPDATE tenant SET held = held + NEW.told - OLD.told WHERE name = NEW.tenant;
END;
CREATE TRIGGER session_gone AFTER DELETE ON session BEGIN
    UPDATE tenant SET held = held - OLD.told WHERE name = OLD.tenant;
END;
CREATE TRIGGER event_rewritten AFTER UPDATE OF body ON event BEGIN
    UPDATE session SET told = told + length(NEW.body) - length(OLD.body) WHERE id = NEW.session_id;
END;
CREATE TRIGGER document_came AFTER INSERT ON document BEGIN
    UPDATE session SET filed = filed + NEW.size WHERE id = NEW.session_id;
    UPDATE tenant SET held = held + NEW.size WHERE name = NEW.tenant AND NOT EXISTS (SELECT 1 FROM document
        WHERE tenant = NEW.tenant AND document_id = NEW.document_id AND session_id <> NEW.session_id);
END;
CREATE TRIGGER document_went AFTER DELETE ON document BEGIN
    UPDATE session SET filed = filed - OLD.size WHERE id = OLD.session_id;
    UPDATE tenant SET held = held - OLD.size WHERE name = OLD.tenant AND NOT EXISTS (SELECT 1 FROM document
        WHERE tenant = OLD.tenant AND document_id = OLD.document_id);
END;
