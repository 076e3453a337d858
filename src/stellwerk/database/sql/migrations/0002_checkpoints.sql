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
