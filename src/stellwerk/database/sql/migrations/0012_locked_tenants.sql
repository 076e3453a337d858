-- A tenant whose credentials open nothing, until whoever runs the server says otherwise.
ALTER TABLE tenant ADD COLUMN locked INTEGER NOT NULL DEFAULT 0;
