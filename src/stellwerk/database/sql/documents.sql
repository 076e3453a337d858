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
ON CONFLICT (tenant, document_id, session_id) DO UPDATE SET filename = excluded.filename, mime = excluded.mime;

-- name: drop_document
DELETE FROM document WHERE tenant = ? AND document_id = ? AND session_id = ?;

Uploads that a session was given and that no other session uses: given up, but for what the session itself refers to.

-- name: give_up_uploads
DELETE FROM document WHERE tenant = ?1 AND session_id = '' AND document_id IN
    (SELECT document_id FROM document WHERE tenant = ?1 AND session_id = ?2)
    AND NOT EXISTS (SELECT 1 FROM document AS other WHERE other.tenant = ?1
        AND other.document_id = document.document_id AND other.session_id NOT IN ('', ?2));

-- name: give_up_upload
DELETE FROM document WHERE tenant = ?1 AND document_id = ?3 AND session_id = ''
    AND NOT EXISTS (SELECT 1 FROM document AS other WHERE other.tenant = ?1
        AND other.document_id = ?3 AND other.session_id NOT IN ('', ?2));

Uploads that no session uses.

-- name: uploads_to_delete
SELECT document_id FROM document WHERE tenant = ?1 AND document_id > ?3 AND session_id = '' AND created_at < ?2
    AND NOT EXISTS (SELECT 1 FROM document AS other WHERE other.tenant = ?1
        AND other.document_id = document.document_id AND other.session_id <> '')
ORDER BY document_id LIMIT ?4;

-- name: number_document
INSERT INTO file_number (tenant, number, document_id)
SELECT ?1, 1 + coalesce((SELECT number FROM last_file_number WHERE tenant = ?1), 0), ?2 WHERE true
ON CONFLICT DO NOTHING;

-- name: numbers_of_documents
SELECT document_id, number FROM file_number
WHERE tenant = ?1 AND document_id IN (SELECT value FROM json_each(?2));

-- name: documents_of_numbers
SELECT number, document_id FROM file_number WHERE tenant = ?1 AND number IN (SELECT value FROM json_each(?2));

-- Of any tenant: no reference to it is left.
-- name: unnumber_document
DELETE FROM file_number WHERE document_id = ?1 AND NOT EXISTS
    (SELECT 1 FROM document WHERE document.tenant = file_number.tenant AND document.document_id = ?1);

-- name: session_of_document
SELECT 1 FROM document WHERE tenant = ? AND document_id = ? AND session_id = ?;

-- name: documents_of
SELECT document_id FROM document WHERE tenant = ? AND session_id = ?;

-- What the log tells of documents behind a position.
-- name: documents_told
SELECT position, body FROM event WHERE session_id = ?1 AND type = 'document' AND position > ?2
    AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position;

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
