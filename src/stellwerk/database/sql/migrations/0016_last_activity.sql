-- Sessions are listed by when something last happened in them, and a page of them is found by an index.
ALTER TABLE session ADD COLUMN last_activity_at REAL NOT NULL DEFAULT 0;
UPDATE session SET last_activity_at = max(created_at, coalesce(
    (SELECT ts FROM event WHERE session_id = session.id ORDER BY position DESC LIMIT 1), 0));
CREATE INDEX session_active ON session (tenant, last_activity_at, id);
