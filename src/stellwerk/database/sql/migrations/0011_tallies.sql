-- What a session holds and has used, kept with it: bytes of its events (told) and of its documents (filed); model calls,
-- tokens and seconds of its runs that are over.
ALTER TABLE session ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN filed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN seconds REAL NOT NULL DEFAULT 0;

-- Bytes of all events of a tenant, and of its documents, each of them once; and when a run of it was last taken up.
ALTER TABLE tenant ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenant ADD COLUMN served_at REAL NOT NULL DEFAULT 0;

-- When the run was taken up last, and how many seconds it had been under way before that.
ALTER TABLE run ADD COLUMN begun_at REAL;
ALTER TABLE run ADD COLUMN seconds REAL NOT NULL DEFAULT 0;

DROP INDEX run_unfinished;
CREATE INDEX run_unfinished ON run (tenant, state, queued_at) WHERE state <> 'ended';

UPDATE session SET
    told = coalesce((SELECT sum(length(body)) FROM event WHERE session_id = session.id), 0),
    filed = coalesce((SELECT sum(size) FROM document WHERE tenant = session.tenant AND session_id = session.id), 0),
    (steps, tokens) = (
        SELECT count(*), coalesce(sum(coalesce(CAST(body AS TEXT) ->> '$.payload.usage.input_tokens', 0)
            + coalesce(CAST(body AS TEXT) ->> '$.payload.usage.output_tokens', 0)), 0)
        FROM event WHERE session_id = session.id AND type = 'llm_end'
            AND position < coalesce((SELECT min(position) FROM run WHERE session_id = session.id AND state <> 'ended'),
                session.last_position + 1)),
    seconds = coalesce((SELECT sum(max(0.0, next_ts - ts)) FROM (
        SELECT type, ts, lead(type) OVER told AS next_type, lead(ts) OVER told AS next_ts
        FROM event WHERE session_id = session.id AND type IN ('run_start', 'run_end')
        WINDOW told AS (ORDER BY position)
    ) WHERE type = 'run_start' AND next_type = 'run_end'), 0.0);
UPDATE tenant SET held = coalesce((SELECT sum(told) FROM session WHERE tenant = tenant.name), 0)
    + coalesce((SELECT sum(size) FROM (SELECT DISTINCT document_id, size FROM document WHERE tenant = tenant.name)), 0);
UPDATE run SET begun_at = queued_at WHERE state = 'running';

CREATE TRIGGER run_begun AFTER INSERT ON run WHEN NEW.begun_at IS NOT NULL BEGIN
    UPDATE tenant SET served_at = NEW.begun_at WHERE name = NEW.tenant;
END;
CREATE TRIGGER run_taken_up AFTER UPDATE OF begun_at ON run BEGIN
    UPDATE tenant SET served_at = NEW.begun_at WHERE name = NEW.tenant;
END;
CREATE TRIGGER session_told AFTER UPDATE OF told ON session BEGIN
    UPDATE tenant SET held = held + NEW.told - OLD.told WHERE name = NEW.tenant;
END;
CREATE TRIGGER session_gone AFTER DELETE ON session BEGIN
    UPDATE tenant SET held = held - OLD.told WHERE name = OLD.tenant;
END;
CREATE TRIGGER event_rewritten AFTER UPDATE OF body ON event BEGIN
    UPDATE session SET told = told + length(NEW.body) - length(OLD.body) WHERE id = NEW.session_id;
END;
CREATE TRIGGER document_came AFTER INSERT ON document BEGIN
    UPDATE session SET filed = filed + NEW.size WHERE id = NEW.session_id;
    UPDATE tenant SET held = held + NEW.size WHERE name = NEW.tenant AND NOT EXISTS (SELECT 1 FROM document
        WHERE tenant = NEW.tenant AND document_id = NEW.document_id AND session_id <> NEW.session_id);
END;
CREATE TRIGGER document_went AFTER DELETE ON document BEGIN
    UPDATE session SET filed = filed - OLD.size WHERE id = OLD.session_id;
    UPDATE tenant SET held = held - OLD.size WHERE name = OLD.tenant AND NOT EXISTS (SELECT 1 FROM document
        WHERE tenant = OLD.tenant AND document_id = OLD.document_id);
END;

-- The numbers of files are counted by each tenant for itself: gaps would tell it what others do.
ALTER TABLE file_number RENAME TO numbered_by_all;
CREATE TABLE file_number (
    tenant      TEXT NOT NULL,
    number      INTEGER NOT NULL,
    document_id TEXT NOT NULL,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, document_id)
) WITHOUT ROWID;
CREATE TABLE last_file_number (
    tenant TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO file_number (tenant, number, document_id) SELECT tenant, number, document_id FROM numbered_by_all;
INSERT INTO last_file_number (tenant, number)
    SELECT DISTINCT tenant, (SELECT seq FROM sqlite_sequence WHERE name = 'numbered_by_all') FROM numbered_by_all;
DROP TABLE numbered_by_all;
CREATE TRIGGER file_numbered AFTER INSERT ON file_number BEGIN
    INSERT INTO last_file_number (tenant, number) VALUES (NEW.tenant, NEW.number)
    ON CONFLICT (tenant) DO UPDATE SET number = excluded.number;
END;
