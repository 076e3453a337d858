-- How far compaction has come in a session.
ALTER TABLE session ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
