-- A system that was deleted stays, withdrawn, for as long as a session refers to it.
ALTER TABLE system ADD COLUMN withdrawn INTEGER NOT NULL DEFAULT 0;
