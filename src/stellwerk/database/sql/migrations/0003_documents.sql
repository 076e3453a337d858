-- Which session refers to which document. The bytes lie in a file named by the document's id,
-- once for each tenant, for as long as a session refers to them.
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
