-- A number for each document, for clients that count their files. None is ever given twice.
CREATE TABLE file_number (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT NOT NULL,
    document_id TEXT NOT NULL,
    UNIQUE (tenant, document_id)
);
INSERT INTO file_number (tenant, document_id) SELECT DISTINCT tenant, document_id FROM document;
