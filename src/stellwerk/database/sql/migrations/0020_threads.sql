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
