-- Every table there is, on PostgreSQL. Texts are compared by their bytes (COLLATE "C"), as on SQLite, and what is a flag is 0 or 1.

-- Which version this schema has, and the oldest version whose program can still use it.
CREATE TABLE schema (
    version     bigint NOT NULL,
    readable_by bigint NOT NULL
);
INSERT INTO schema (version, readable_by) VALUES (1, 1);

-- Where texts are looked for in bodies.
CREATE FUNCTION instr(bytea, text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN position(convert_to($2, 'UTF8') IN $1);

-- A session is a row; its story is in event. last_position numbers the story,
-- epoch fences writers; batch_no, and where that batch ended, make a repeated append harmless.
-- packed is how far compaction has come.
-- log_bytes and filed are the bytes of its events and of its documents; steps, tokens and seconds are those of its runs
-- that are over. workflow says that it was started as one, and not as a chat. last_activity_at is when its last event
-- happened, or when it was begun. defaults are config and context for its messages, in JSON. An ephemeral one is
-- deleted a while after the end of its run. touched is when it was changed last, in milliseconds of this database; appends
-- move it and last_activity_at every two seconds at most, so that most of them change no index. rewrites counts what was
-- removed from its log.
CREATE TABLE session (
    id            text COLLATE "C" PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    system        text COLLATE "C" NOT NULL,
    "user"         text COLLATE "C",
    format        bigint NOT NULL,
    epoch         bigint NOT NULL DEFAULT 0,
    batch_no      bigint NOT NULL DEFAULT 0,
    batch_end     bigint NOT NULL DEFAULT 0,
    last_position bigint NOT NULL DEFAULT 0,
    touched       bigint NOT NULL,
    created_at    double precision NOT NULL,
    packed        bigint NOT NULL DEFAULT 0,
    log_bytes          bigint NOT NULL DEFAULT 0,
    filed         bigint NOT NULL DEFAULT 0,
    steps         bigint NOT NULL DEFAULT 0,
    tokens        bigint NOT NULL DEFAULT 0,
    seconds       double precision NOT NULL DEFAULT 0,
    workflow      bigint NOT NULL DEFAULT 0,
    last_activity_at double precision NOT NULL DEFAULT 0,
    defaults      bytea,
    ephemeral     bigint NOT NULL DEFAULT 0,
    rewrites      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
-- Taken by every transaction before it reads what it will change, for all of its sessions and in one order. Returns the
-- time in milliseconds.
CREATE FUNCTION lock_sessions(text[]) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
    PERFORM 1 FROM session WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE;
    RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
END $$;
-- Those that no other transaction has locked.
CREATE FUNCTION lock_free_sessions(text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    RETURN QUERY SELECT id FROM session WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;
END $$;
CREATE INDEX session_touched ON session (tenant, touched);
CREATE INDEX session_active ON session (tenant, last_activity_at, id);
CREATE INDEX session_listed ON session (tenant, id);
CREATE INDEX session_workflow ON session (tenant, id) WHERE workflow = 1;
CREATE INDEX session_ephemeral ON session (last_activity_at) WHERE ephemeral = 1;

-- body is the envelope's final JSON, written once and never parsed on its way out. In old sessions
-- a stretch of pieces of text is one row, of type 'packed', in the place of the last of them: their bodies, compressed.
CREATE TABLE event (
    session_id text COLLATE "C" NOT NULL,
    position   bigint NOT NULL,
    type       text COLLATE "C" NOT NULL,
    ts         double precision NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (session_id, position)
);
ALTER TABLE event ALTER COLUMN body SET STORAGE EXTERNAL;

-- What was answered to a request with this key; the same key gets the same answer.
CREATE TABLE idempotency (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    request    text COLLATE "C" NOT NULL,
    answer     bytea NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (tenant, session_id, key)
);

-- A deleted session leaves the hash of its id, so that it is never written again.
-- remains is its id, until everything that belonged to it is gone.
CREATE TABLE tombstone (
    hash       text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    deleted_at double precision NOT NULL,
    touched    bigint NOT NULL,
    events     bigint NOT NULL,
    remains    text COLLATE "C"
);
CREATE INDEX tombstone_remains ON tombstone (remains) WHERE remains IS NOT NULL;
CREATE INDEX tombstone_touched ON tombstone (tenant, touched);

-- The run table is also the queue: waiting, running, ended. position is that of its run_start,
-- attempt how often it was begun: once, and again after each crash; begun_at when it was taken up last, seconds how long
-- it had been under way before that; unrecorded has the messages that its state has and its log does not
-- have yet, one per line. start_at is when a delayed run may start, webhook where its end is reported. node is the process that drives it.
-- Queries must say state <> 'ended', or they look at every run that ever was.
CREATE TABLE run (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    trace_id   text COLLATE "C" NOT NULL,
    round      bigint NOT NULL,
    position   bigint NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('waiting', 'running', 'ended')),
    epoch      bigint NOT NULL,
    queued_at  double precision NOT NULL,
    attempt    bigint NOT NULL DEFAULT 1,
    begun_at   double precision,
    seconds    double precision NOT NULL DEFAULT 0,
    unrecorded bytea,
    start_at   double precision,
    webhook    text COLLATE "C",
    node       text COLLATE "C",
    UNIQUE (session_id, round)
);
CREATE INDEX run_unfinished ON run (tenant, state, queued_at) WHERE state <> 'ended';
CREATE INDEX run_node ON run (node) WHERE state = 'running';
CREATE INDEX run_delayed ON run (start_at) WHERE state = 'waiting' AND start_at IS NOT NULL;

-- Messages that came while their session was busy, in order; each starts a round when its turn has come.
CREATE TABLE inbox (
    session_id text COLLATE "C" NOT NULL,
    position   bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    system     text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    start_at   double precision,
    webhook    text COLLATE "C",
    PRIMARY KEY (session_id, position)
);

-- Registered agent systems, every version that a session may still refer to; withdrawn ones only for that.
CREATE TABLE system (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    digest     text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,
    created_at double precision NOT NULL,
    withdrawn  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, name, version)
);

-- LangGraph's checkpoints. thread_id is the id of a session; ns is empty for the
-- outer graph and names the task for a sub-agent. channels holds version and parts
-- of every channel, body the rest of the checkpoint and its metadata.
CREATE TABLE checkpoint (
    tenant    text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    ns        text COLLATE "C" NOT NULL,
    id        text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C",
    run_id    text COLLATE "C",
    channels  bytea NOT NULL,
    type      text COLLATE "C" NOT NULL,
    body      bytea NOT NULL,
    rowid     bigint GENERATED ALWAYS AS IDENTITY,
    UNIQUE (tenant, thread_id, ns, id)
);
CREATE INDEX checkpoint_latest ON checkpoint (tenant, thread_id, ns, rowid);
CREATE INDEX checkpoint_run ON checkpoint (tenant, run_id) WHERE run_id IS NOT NULL;

-- What a task wrote before the step it belongs to was complete.
CREATE TABLE checkpoint_write (
    tenant        text COLLATE "C" NOT NULL,
    thread_id     text COLLATE "C" NOT NULL,
    ns            text COLLATE "C" NOT NULL,
    checkpoint_id text COLLATE "C" NOT NULL,
    task_id       text COLLATE "C" NOT NULL,
    idx           bigint NOT NULL,
    task_path     text COLLATE "C" NOT NULL,
    channel       text COLLATE "C" NOT NULL,
    type          text COLLATE "C" NOT NULL,
    parts         bytea NOT NULL,
    PRIMARY KEY (tenant, thread_id, ns, checkpoint_id, task_id, idx)
);

-- Pieces of values, each once per thread, by the digest of its body. The body of a
-- node is a list of parts and names further items; what is below a node is
-- stored in the same transaction.
CREATE TABLE checkpoint_item (
    tenant    text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    node      bigint NOT NULL,
    body      bytea NOT NULL,
    rowid     bigint GENERATED ALWAYS AS IDENTITY,
    UNIQUE (tenant, thread_id, name)
);

-- Which session refers to which document. The bytes lie in a file named by the document's id,
-- once for each tenant, for as long as a session refers to them. An upload has no session: its id is empty.
CREATE TABLE document (
    tenant      text COLLATE "C" NOT NULL,
    document_id text COLLATE "C" NOT NULL,
    session_id  text COLLATE "C" NOT NULL,
    filename    text COLLATE "C" NOT NULL,
    mime        text COLLATE "C" NOT NULL,
    size        bigint NOT NULL,
    created_at  double precision NOT NULL,
    PRIMARY KEY (tenant, document_id, session_id)
);
CREATE INDEX document_session ON document (tenant, session_id);

-- A number for each document, for clients that count their files. Each tenant counts for itself, as gaps would tell it
-- what others do; none is ever given twice.
CREATE TABLE file_number (
    tenant      text COLLATE "C" NOT NULL,
    number      bigint NOT NULL,
    document_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, document_id)
);
CREATE TABLE last_file_number (
    tenant text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
);
CREATE FUNCTION file_numbered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO last_file_number (tenant, number) VALUES (NEW.tenant, NEW.number)
    ON CONFLICT (tenant) DO UPDATE SET number = excluded.number;
    RETURN NULL;
END $$;
CREATE TRIGGER file_numbered AFTER INSERT ON file_number FOR EACH ROW EXECUTE FUNCTION file_numbered();

-- Folds of the log, kept for speed alone: if they are dropped, the next start rebuilds them.
CREATE TABLE standing (
    session_id text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    state      bytea NOT NULL
);

-- position is that of the last event in it, form the version of the folds that made it.
CREATE TABLE overview (
    session_id text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    position   bigint NOT NULL,
    form       bigint NOT NULL,
    state      bytea NOT NULL
);

-- Tenants, in the order in which they came. The number is what clients with whole numbers call a mandate.
CREATE TABLE tenant (
    number     bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    created_at double precision NOT NULL,
    locked     bigint NOT NULL DEFAULT 0,
    webhook    text COLLATE "C"
);

INSERT INTO tenant (name, created_at) VALUES ('local', 0);

-- How much tenants hold, and when they were served, counted by each process in rows of its own: one row for all of them
-- would be waited for by every commit. held is how many bytes more all events of a tenant have since this process counts,
-- and its documents, each of them once; served_at is when it took up a run of the tenant last: tenants take turns.
-- Rows of processes that are gone are added up under the empty name.
CREATE TABLE tenant_tally (
    tenant    text COLLATE "C" NOT NULL,
    node      text COLLATE "C" NOT NULL,
    held      bigint NOT NULL DEFAULT 0,
    served_at double precision NOT NULL DEFAULT 0,
    requests  bigint NOT NULL DEFAULT 0,
    streams   bigint NOT NULL DEFAULT 0,
    steps     bigint NOT NULL DEFAULT 0,
    tokens    bigint NOT NULL DEFAULT 0,
    seconds   double precision NOT NULL DEFAULT 0,
    counted_at double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, node)
) WITH (fillfactor = 50);
CREATE FUNCTION tally(text, bigint, double precision DEFAULT 0) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tenant_tally (tenant, node, held, served_at)
    VALUES ($1, coalesce(current_setting('stellwerk.node', true), ''), $2, $3)
    ON CONFLICT (tenant, node) DO UPDATE SET held = tenant_tally.held + excluded.held,
        served_at = greatest(tenant_tally.served_at, excluded.served_at)
$$;

-- The processes that use this database. until is when one counts as gone if it is not heard of any more, by the clock of
-- this database, in seconds; slots is how many runs it drives at the same time.
CREATE TABLE node (
    id      text COLLATE "C" PRIMARY KEY,
    role    text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    slots   bigint NOT NULL,
    until   double precision NOT NULL
) WITH (fillfactor = 50);

-- What processes hold in memory is read again when its number rises: keys, limits, secrets, systems.
CREATE TABLE change (
    what   text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
) WITH (fillfactor = 50);

-- Tickets of streams, until they are used or too old. Lost with a crash of the database: clients ask for another.
CREATE UNLOGGED TABLE ticket (
    hash  bytea PRIMARY KEY,
    granted bytea NOT NULL,
    until double precision NOT NULL
);

-- API keys. Of the secret there is only the SHA-256. Revoked ones stay, so that their ids are never used again.
CREATE TABLE api_key (
    id         text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    "user"      text COLLATE "C",
    role       text COLLATE "C" NOT NULL CHECK (role IN ('reader', 'member', 'admin')),
    scopes     text COLLATE "C",
    hash       bytea NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    revoked_at double precision,
    last_used  double precision
);
CREATE INDEX api_key_tenant ON api_key (tenant, created_at);

-- Who did what: a chain for each tenant, in which each hash covers the entry and the hash before it.
CREATE TABLE audit (
    tenant text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    entry  bytea NOT NULL,
    hash   bytea NOT NULL,
    PRIMARY KEY (tenant, number)
);

-- Secrets of a tenant, or of one of its agent systems, sealed with AES-256-GCM under the master key of this name.
CREATE TABLE secret (
    tenant     text COLLATE "C" NOT NULL,
    system     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    sealed     bytea NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (tenant, system, name)
);

-- What a tenant may use, as JSON; one without a row has no limits.
CREATE TABLE tenant_limits (
    tenant text COLLATE "C" PRIMARY KEY,
    limits bytea NOT NULL
);

-- What was used, by day (UTC), user, system and model; counted when a run ends, or goes with its session. It outlives both.
-- The row without a model has what no model has: runs, their seconds, tool calls, and model calls that were not counted.
CREATE TABLE usage (
    tenant        text COLLATE "C" NOT NULL,
    day           text COLLATE "C" NOT NULL,
    "user"         text COLLATE "C" NOT NULL,
    system        text COLLATE "C" NOT NULL,
    model         text COLLATE "C" NOT NULL,
    model_calls   bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    tool_calls    bigint NOT NULL,
    runs          bigint NOT NULL,
    seconds       double precision NOT NULL,
    PRIMARY KEY (tenant, day, "user", system, model)
);

-- The outbox of webhooks, filled in the transaction that ends a run. next_at is the next attempt of a pending one; while
-- an attempt is under way, it is when another process may try again.
CREATE TABLE delivery (
    id         text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    run_id     text COLLATE "C" NOT NULL,
    url        text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts   bigint NOT NULL DEFAULT 0,
    outcome    text COLLATE "C",
    created_at double precision NOT NULL,
    next_at    double precision NOT NULL,
    ended_at   double precision
);
CREATE INDEX delivery_due ON delivery (next_at) WHERE state = 'pending';
CREATE INDEX delivery_listed ON delivery (tenant, created_at, id);
CREATE INDEX delivery_session ON delivery (session_id, tenant);

-- Crons. spec is what starts and when, as JSON; next_at is the next tick, and last the outcome of the last one, as JSON.
CREATE TABLE cron (
    id         text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C",
    spec       bytea NOT NULL,
    enabled    bigint NOT NULL,
    created_at double precision NOT NULL,
    next_at    double precision NOT NULL,
    last       bytea
);
CREATE INDEX cron_due ON cron (next_at) WHERE enabled = 1;
CREATE INDEX cron_listed ON cron (tenant, id);

-- Sessions under the ids of clients of other protocols. A thread may be there before its session, which gets the id
-- in session_id. metadata is the client's, as JSON.
CREATE TABLE thread (
    tenant     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    metadata   bytea NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX thread_session ON thread (session_id);

-- What a session and its tenant hold is counted where it changes; what is appended, by the statements themselves.
CREATE FUNCTION event_rewritten() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE
    grown bigint := length(NEW.body) - length(OLD.body);
    owner text;
BEGIN
    UPDATE session SET log_bytes = log_bytes + grown, rewrites = rewrites + (NEW.type = OLD.type)::integer
    WHERE id = NEW.session_id RETURNING tenant INTO owner;
    IF owner IS NOT NULL THEN PERFORM tally(owner, grown); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_rewritten AFTER UPDATE OF body ON event FOR EACH ROW EXECUTE FUNCTION event_rewritten();
CREATE FUNCTION document_came() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE session SET filed = filed + NEW.size WHERE id = NEW.session_id;
    IF NOT EXISTS (SELECT 1 FROM document WHERE tenant = NEW.tenant AND document_id = NEW.document_id
        AND session_id <> NEW.session_id) THEN PERFORM tally(NEW.tenant, NEW.size); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER document_came AFTER INSERT ON document FOR EACH ROW EXECUTE FUNCTION document_came();
CREATE FUNCTION document_went() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE session SET filed = filed - OLD.size WHERE id = OLD.session_id;
    IF NOT EXISTS (SELECT 1 FROM document WHERE tenant = OLD.tenant AND document_id = OLD.document_id)
        THEN PERFORM tally(OLD.tenant, -OLD.size); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER document_went AFTER DELETE ON document FOR EACH ROW EXECUTE FUNCTION document_went();

-- Keys, locked tenants and limits are in the memory of every node, which reads them again when the number has risen.
CREATE FUNCTION access_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO change (what, number) VALUES ('access', 1) ON CONFLICT (what) DO UPDATE SET number = change.number + 1;
    PERFORM pg_notify('stellwerk', coalesce(nullif(current_setting('stellwerk.node', true), ''), '-') || ' !changed');
    RETURN NULL;
END $$;
CREATE TRIGGER key_changed AFTER INSERT OR DELETE OR UPDATE OF revoked_at ON api_key
    FOR EACH STATEMENT EXECUTE FUNCTION access_changed();
CREATE TRIGGER tenant_changed AFTER INSERT OR UPDATE OF locked ON tenant
    FOR EACH STATEMENT EXECUTE FUNCTION access_changed();
CREATE TRIGGER limits_changed AFTER INSERT OR UPDATE OR DELETE ON tenant_limits
    FOR EACH STATEMENT EXECUTE FUNCTION access_changed();
