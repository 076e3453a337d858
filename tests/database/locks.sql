-- For tests: what is stored for a session is written under the lock of its row, which is taken before anything is read;
-- chains and numbers are written under an advisory lock. An operation that does not name its locks (database/port.py,
-- `locking`) fails with these functions and triggers.
CREATE FUNCTION note_locked(text[]) RETURNS void LANGUAGE sql AS $$
    SELECT set_config('stellwerk.locked',
        (coalesce(nullif(current_setting('stellwerk.locked', true), ''), '{}')::text[] || $1)::text, true)
$$;
ALTER FUNCTION lock_sessions(text[]) RENAME TO lock_sessions_unseen;
ALTER FUNCTION lock_free_sessions(text[]) RENAME TO lock_free_sessions_unseen;
CREATE FUNCTION lock_sessions(text[]) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
    PERFORM note_locked($1);
    RETURN lock_sessions_unseen($1);
END $$;
CREATE FUNCTION lock_free_sessions(text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN
    RETURN QUERY SELECT free FROM lock_free_sessions_unseen($1) AS free, LATERAL (SELECT note_locked(ARRAY[free])) AS noted;
END $$;

CREATE FUNCTION note_new_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM note_locked(ARRAY[NEW.id]);  -- no other transaction sees it yet
    RETURN NEW;
END $$;
CREATE TRIGGER note_new_session BEFORE INSERT ON session FOR EACH ROW EXECUTE FUNCTION note_new_session();

CREATE FUNCTION refuse_without_session() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    given text;
BEGIN
    EXECUTE format('SELECT ($1).%I', TG_ARGV[0]) USING CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END INTO given;
    IF NOT given = ANY(coalesce(nullif(current_setting('stellwerk.locked', true), ''), '{}')::text[])
        AND EXISTS (SELECT 1 FROM session WHERE id = given) THEN
        RAISE EXCEPTION 'the session % is not locked for this % of %', given, TG_OP, TG_TABLE_NAME;
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION refuse_without_name() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted) THEN
        RAISE EXCEPTION 'no name is locked for this % of %', TG_OP, TG_TABLE_NAME;
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;

DO $$
DECLARE
    place record;
BEGIN
    FOR place IN SELECT * FROM (VALUES
        ('session', 'id', 'UPDATE OR DELETE'), ('event', 'session_id', 'INSERT OR UPDATE OR DELETE'),
        ('idempotency', 'session_id', 'INSERT OR UPDATE OR DELETE'), ('run', 'session_id', 'INSERT OR UPDATE OR DELETE'),
        ('inbox', 'session_id', 'INSERT OR UPDATE OR DELETE'), ('standing', 'session_id', 'INSERT OR UPDATE OR DELETE'),
        ('overview', 'session_id', 'INSERT OR UPDATE OR DELETE'), ('document', 'session_id', 'INSERT OR DELETE'),
        ('checkpoint', 'thread_id', 'INSERT OR UPDATE OR DELETE'),
        ('checkpoint_write', 'thread_id', 'INSERT OR UPDATE OR DELETE'),
        ('checkpoint_item', 'thread_id', 'INSERT OR UPDATE OR DELETE')
    ) AS tables(name, col, events) LOOP
        EXECUTE format('CREATE TRIGGER refuse_without_session BEFORE %s ON %I FOR EACH ROW '
            'EXECUTE FUNCTION refuse_without_session(%L)', place.events, place.name, place.col);
    END LOOP;
    FOR place IN SELECT * FROM (VALUES
        ('audit', 'INSERT OR UPDATE OR DELETE'), ('system', 'INSERT OR UPDATE OR DELETE'),
        ('secret', 'INSERT OR UPDATE OR DELETE'), ('usage', 'INSERT OR UPDATE OR DELETE'), ('api_key', 'INSERT OR DELETE'),
        ('tenant', 'INSERT OR DELETE'), ('thread', 'INSERT'), ('cron', 'INSERT'), ('file_number', 'INSERT OR UPDATE')
    ) AS tables(name, events) LOOP
        EXECUTE format('CREATE TRIGGER refuse_without_name BEFORE %s ON %I FOR EACH ROW '
            'EXECUTE FUNCTION refuse_without_name()', place.events, place.name);
    END LOOP;
END $$;
