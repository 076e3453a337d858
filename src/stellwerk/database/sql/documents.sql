The statements of documents: who refers to which, and what to forget.

A session that is gone, or is being deleted, cannot refer to anything any more.

-- name: refer_to_document
INSERT INTO document (tenant, document_id, session_id, filename, mime, size, created_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE EXISTS (SELECT 1 FROM session WHERE id = ?3 AND tenant = ?1)
ON CONFLICT DO NOTHING;

-- Those that the copied events name.
-- name: copy_documents
INSERT INTO document (tenant, document_id, session_id, filename, mime, size, created_at)
SELECT tenant, document_id, ?1, filename, mime, size, ?2 FROM document WHERE tenant = ?3 AND session_id = ?4
    AND EXISTS (SELECT 1 FROM event WHERE event.session_id = ?1 AND instr(event.body, document.document_id) > 0)
ON CONFLICT DO NOTHING;

-- name: upload_document
INSERT INTO document (tenant, document_id, session_id, filename, mime, size, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET filename = excluded.filename, mime = excluded.mime;

-- name: drop_document
DELETE FROM document WHERE tenant = ? AND document_id = ? AND session_id = ?;

-- name: session_of_document
SELECT 1 FROM document WHERE tenant = ? AND document_id = ? AND session_id = ?;

-- name: documents_of
SELECT document_id FROM document WHERE tenant = ? AND session_id = ?;

-- name: document
SELECT document_id, filename, mime, size, created_at FROM document
WHERE tenant = ? AND document_id = ? ORDER BY created_at, session_id LIMIT 1;

One step for each tenant, however many documents it has.

-- name: tenants_of_documents
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM document
    UNION ALL
    SELECT (SELECT min(tenant) FROM document WHERE document.tenant > found.tenant) FROM found
    WHERE found.tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL;

-- name: forget_documents
DELETE FROM document WHERE tenant = ?1 AND session_id = ?2 AND document_id IN
    (SELECT document_id FROM document WHERE tenant = ?1 AND session_id = ?2 LIMIT ?3);
