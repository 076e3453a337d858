-- Config and context of a session, for its messages, in JSON; null if it has none.
ALTER TABLE session ADD COLUMN defaults BLOB;
