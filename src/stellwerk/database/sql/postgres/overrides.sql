The statements that PostgreSQL needs in other words. Each takes the same parameters as the one of its name.

-- One text, as each row costs the process a turn at Python's lock.
-- name: fences_of
SELECT coalesce(json_agg(json_build_array(id, tenant, epoch, batch_no, batch_end, last_position)), '[]')::text
FROM session WHERE id IN (SELECT json_array_elements_text(?1::json));

Two columns are in indexes. They are moved every two seconds at most, and at the end of a run: all other appends change no index.

-- name: move_heads
WITH moved AS (
    UPDATE session SET batch_no = (head ->> 3)::bigint, batch_end = (head ->> 4)::bigint,
        last_position = (head ->> 5)::bigint, log_bytes = log_bytes + (head ->> 6)::bigint,
        touched = CASE WHEN ?2::bigint - touched > 2000 OR (head ->> 8)::boolean THEN ?2::bigint ELSE touched END,
        last_activity_at = CASE WHEN ?2::bigint - touched > 2000 OR (head ->> 8)::boolean
            THEN greatest(last_activity_at, (head ->> 7)::double precision) ELSE last_activity_at END
    FROM json_array_elements(?1::json) AS head WHERE session.id = head ->> 0
    RETURNING tenant, (head ->> 6)::bigint AS grown
)
SELECT tally(tenant, sum(grown)::bigint) FROM moved GROUP BY tenant;

-- Rows as columns: an array for each.
-- name: insert_event_many
INSERT INTO event (session_id, position, type, ts, body)
SELECT * FROM unnest(?1::text[], ?2::bigint[], ?3::text[], ?4::double precision[], ?5::bytea[]);

-- name: claim_positions
WITH moved AS (
    UPDATE session SET last_position = last_position + ?1::bigint, log_bytes = log_bytes + ?2::bigint, touched = ?3,
        last_activity_at = greatest(last_activity_at, ?4)
    WHERE id = ?5 AND tenant = ?6 RETURNING last_position, tally(tenant, ?2::bigint)
)
SELECT last_position FROM moved;

-- name: set_last_position
UPDATE session SET last_position = ?1,
    log_bytes = (SELECT coalesce(sum(length(body)), 0)::bigint FROM event WHERE session_id = ?2)
WHERE id = ?2 AND tenant = ?3 RETURNING tally(tenant, log_bytes);

-- name: set_packed
UPDATE session SET packed = ?1, log_bytes = log_bytes - ?2::bigint WHERE id = ?3 AND tenant = ?4 RETURNING tally(tenant, -?2::bigint);

-- name: delete_session
DELETE FROM session WHERE id = ?1 AND tenant = ?2 RETURNING tally(tenant, -log_bytes);

-- Up to so many bytes of bodies; at least one row.
-- name: read_events_within
SELECT position, body FROM (
    SELECT position, body, sum(length(body)) OVER (ORDER BY position) - length(body) AS before FROM (
        SELECT position, body FROM event WHERE session_id = ?1 AND position > ?2
            AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position LIMIT ?4
    ) AS page
) AS counted WHERE before < ?5 ORDER BY position;

-- name: events_with_times_within
SELECT position, ts, body FROM (
    SELECT position, ts, body, sum(length(body)) OVER (ORDER BY position) - length(body) AS before FROM (
        SELECT position, ts, body FROM event WHERE session_id = ?1 AND position > ?2
            AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?3) ORDER BY position LIMIT ?4
    ) AS page
) AS counted WHERE before < ?5 ORDER BY position;

-- name: events_of_types_within
SELECT position, body FROM (
    SELECT position, body, sum(length(body)) OVER (ORDER BY position) - length(body) AS before FROM (
        SELECT position, body FROM event WHERE session_id = ?1 AND position > ?2
            AND type IN (SELECT json_array_elements_text(?3::json))
            AND EXISTS (SELECT 1 FROM session WHERE id = ?1 AND tenant = ?4) ORDER BY position LIMIT ?5
    ) AS page
) AS counted WHERE before < ?6 ORDER BY position;

Times are not in the order of commits: what changed in the last ten seconds may still be followed by something older.

-- name: last_change
SELECT CASE WHEN seen.at > clock.now - 10000 THEN clock.now ELSE seen.at END FROM
    (SELECT greatest(coalesce((SELECT max(touched) FROM session WHERE tenant = ?1), 0),
        coalesce((SELECT max(touched) FROM tombstone WHERE tenant = ?1), 0)) AS at) AS seen,
    (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock;

-- name: overviews_behind
WITH RECURSIVE found (tenant) AS (
    SELECT min(tenant) FROM session
    UNION ALL
    SELECT (SELECT min(tenant) FROM session WHERE session.tenant > found.tenant) FROM found
    WHERE found.tenant IS NOT NULL
)
SELECT session.tenant, session.id
FROM found JOIN session ON session.tenant = found.tenant AND session.touched > ?1::bigint - 10000
LEFT JOIN overview ON overview.session_id = session.id AND overview.form = ?2
WHERE session.last_position > coalesce(overview.position, 0) + ?3 OR EXISTS (
    SELECT 1 FROM event WHERE event.session_id = session.id
      AND event.position > coalesce(overview.position, 0) AND event.type = 'state'
);

A write of the server itself: its commit reaches the disk, and no row is waited for.

-- name: note_readiness
SELECT pg_current_xact_id();

-- Of a list of [session, tenant, epoch]: which must not write any more. Without an epoch there is no fence.
-- name: epochs_over
SELECT place - 1, (fence ->> 2)::bigint FROM json_array_elements(?1::json) WITH ORDINALITY AS given(fence, place)
WHERE fence ->> 2 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM session
    WHERE id = fence ->> 0 AND tenant = fence ->> 1 AND epoch = (fence ->> 2)::bigint);

-- Of a list of [tenant, thread, name]: which are not there yet.
-- name: items_lacking
SELECT coalesce(json_agg(place - 1 ORDER BY place), '[]')::text
FROM json_array_elements(?1::json) WITH ORDINALITY AS given(item, place) WHERE NOT EXISTS (SELECT 1 FROM checkpoint_item
    WHERE tenant = item ->> 0 AND thread_id = item ->> 1 AND name = item ->> 2);

-- name: documents_of_numbers
SELECT number, document_id FROM file_number
WHERE tenant = ?1 AND number IN (SELECT json_array_elements_text(?2::json)::bigint);

-- name: delivery_succeeded
UPDATE delivery SET state = 'delivered', outcome = ?3, ended_at = ?4, body = '' WHERE id = ?1 AND tenant = ?2;

-- name: ephemeral_sessions
SELECT tenant, id, last_position FROM session WHERE ephemeral = 1 AND last_activity_at < ?1
    AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = session.id AND run.state <> 'ended')
    AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.session_id = session.id AND delivery.tenant = session.tenant
        AND delivery.state = 'pending')
    AND NOT EXISTS (SELECT 1 FROM standing WHERE standing.session_id = session.id
        AND convert_from(standing.state, 'UTF8')::json ->> 'awaiting_user_input' = 'true')
ORDER BY last_activity_at LIMIT ?2;

-- name: insert_run
WITH made AS (
    INSERT INTO run (id, session_id, tenant, trace_id, round, position, state, epoch, queued_at, begun_at, webhook, node)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
        greatest(?9,
            (SELECT max(queued_at) + 0.001 FROM run WHERE state = 'waiting' AND tenant = ?3),
            (SELECT max(queued_at) + 0.001 FROM run WHERE state = 'running' AND tenant = ?3)),
        CASE ?7 WHEN 'running' THEN ?9::double precision END,
        (SELECT webhook FROM run WHERE session_id = ?2 AND round = ?5::bigint - 1 AND tenant = ?3 AND trace_id = ?4),
        CASE ?7 WHEN 'running' THEN current_setting('stellwerk.node', true) END)
    RETURNING tenant, begun_at
)
SELECT tally(tenant, 0, begun_at) FROM made WHERE begun_at IS NOT NULL;

-- name: claim_run
WITH claimed AS (
    UPDATE run SET state = 'running', epoch = ?1, attempt = ?2, begun_at = ?3,
        node = current_setting('stellwerk.node', true),
        seconds = seconds + CASE state WHEN 'running' THEN greatest(0.0, coalesce(
            (SELECT ts FROM event WHERE session_id = run.session_id ORDER BY position DESC LIMIT 1) - begun_at, 0.0))
            ELSE 0.0 END
    WHERE id = ?4 AND tenant = ?5 RETURNING tenant, begun_at
)
SELECT tally(tenant, 0, begun_at) FROM claimed;

-- name: release_run
UPDATE run SET state = 'waiting', node = NULL, attempt = attempt + ?1,
    epoch = CASE WHEN ?2::bigint <> 0 THEN 0 ELSE epoch END,
    seconds = seconds + greatest(0.0, coalesce(?3 - begun_at, 0.0))
WHERE id = ?4 AND tenant = ?5 AND state = 'running' AND epoch = ?6;

-- name: runs_waiting
WITH RECURSIVE unfinished (tenant) AS (
    SELECT min(tenant) FROM run WHERE state <> 'ended'
    UNION ALL
    SELECT (SELECT min(tenant) FROM run WHERE state <> 'ended' AND tenant > unfinished.tenant) FROM unfinished
    WHERE unfinished.tenant IS NOT NULL
), line AS MATERIALIZED (
    SELECT tenant,
        coalesce((SELECT max(served_at) FROM tenant_tally WHERE tenant_tally.tenant = unfinished.tenant), 0) AS served_at,
        (SELECT count(*) FROM run AS other
            WHERE other.state <> 'ended' AND other.tenant = unfinished.tenant AND other.state = 'running') AS under_way
    FROM unfinished WHERE tenant IS NOT NULL
)
SELECT id, session_id, tenant, position, attempt, epoch FROM (
    SELECT run.*, served_at, under_way + row_number() OVER (PARTITION BY run.tenant ORDER BY queued_at, id) AS turn
    FROM line CROSS JOIN LATERAL (
        SELECT first.* FROM run AS first WHERE first.state <> 'ended' AND first.tenant = line.tenant
            AND first.state = 'waiting' AND coalesce(first.start_at, ?2) <= ?2 ORDER BY queued_at, id LIMIT ?1
    ) AS run
) AS turns ORDER BY turn, served_at, queued_at, id LIMIT ?1;

-- name: runs_running
SELECT id, session_id, tenant, position, attempt, epoch FROM run
WHERE state = 'running' AND NOT EXISTS (SELECT 1 FROM node
    WHERE node.id = run.node AND node.until > extract(epoch FROM clock_timestamp()))
ORDER BY queued_at, id;

-- name: leases_running
SELECT tenant, session_id, id, epoch FROM run WHERE state = 'running' AND node = current_setting('stellwerk.node', true);

-- name: insert_tenant
INSERT INTO tenant (name, created_at) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM tenant WHERE name = ?1);

-- name: count_usage
WITH spending AS (
    SELECT run.tenant, session."user", session.system, event.type, event.ts,
        CASE event.type WHEN 'llm_end' THEN convert_from(event.body, 'UTF8')::json #> '{payload,usage}' END AS spent,
        CASE event.position WHEN session.last_position
            THEN run.seconds + greatest(0.0, coalesce(event.ts - run.begun_at, 0.0)) ELSE 0.0 END AS seconds
    FROM run JOIN session ON session.id = run.session_id
    JOIN event ON event.session_id = run.session_id AND event.position >= run.position
        AND (event.type IN ('run_start', 'llm_end', 'tool_end') OR event.position = session.last_position)
    WHERE run.id = ?1 AND run.tenant = ?2
)
INSERT INTO usage (tenant, day, "user", system, model,
    model_calls, input_tokens, output_tokens, tool_calls, runs, seconds)
SELECT tenant, to_char(to_timestamp(ts) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), coalesce("user", ''), system,
    coalesce(spent ->> 'model', ''),
    count(*) FILTER (WHERE type = 'llm_end'),
    sum(coalesce((spent ->> 'input_tokens')::bigint, 0)),
    sum(coalesce((spent ->> 'output_tokens')::bigint, 0)),
    count(*) FILTER (WHERE type = 'tool_end'),
    count(*) FILTER (WHERE type = 'run_start'),
    sum(seconds)
FROM spending GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (tenant, day, "user", system, model) DO UPDATE SET
    model_calls = usage.model_calls + excluded.model_calls,
    input_tokens = usage.input_tokens + excluded.input_tokens,
    output_tokens = usage.output_tokens + excluded.output_tokens,
    tool_calls = usage.tool_calls + excluded.tool_calls,
    runs = usage.runs + excluded.runs,
    seconds = usage.seconds + excluded.seconds;

-- name: count_in_session
UPDATE session SET steps = session.steps + own.steps, tokens = session.tokens + own.tokens, seconds = session.seconds + own.seconds
FROM (
    SELECT run.session_id, count(*) FILTER (WHERE event.type = 'llm_end') AS steps,
        sum(CASE event.type WHEN 'llm_end'
            THEN coalesce((convert_from(event.body, 'UTF8')::json #>> '{payload,usage,input_tokens}')::bigint, 0)
                + coalesce((convert_from(event.body, 'UTF8')::json #>> '{payload,usage,output_tokens}')::bigint, 0)
            ELSE 0 END) AS tokens,
        max(run.seconds + greatest(0.0, coalesce(event.ts - run.begun_at, 0.0))) AS seconds
    FROM run JOIN event ON event.session_id = run.session_id AND event.position >= run.position
        AND event.type IN ('llm_end', 'run_end')
    WHERE run.id = ?1 AND run.tenant = ?2 GROUP BY run.id
) AS own WHERE session.id = own.session_id;

-- name: usage_page
SELECT day, nullif("user", ''), system, nullif(model, ''), model_calls, input_tokens, output_tokens, tool_calls, runs,
    round(seconds::numeric, 3)::double precision FROM usage
WHERE tenant = ?1 AND day >= ?2 ORDER BY day DESC, "user", system, model LIMIT ?3 OFFSET ?4;

-- name: used_on
SELECT tenant, sum(steps)::bigint, sum(tokens)::bigint, sum(seconds) FROM (
    SELECT tenant, model_calls AS steps, input_tokens + output_tokens AS tokens, seconds FROM usage
    WHERE tenant IN (SELECT name FROM tenant) AND day = ?1
    UNION ALL
    SELECT tenant, 0, 0, seconds FROM run WHERE state <> 'ended'
    UNION ALL
    SELECT run.tenant, 1, coalesce((convert_from(event.body, 'UTF8')::json #>> '{payload,usage,input_tokens}')::bigint, 0)
        + coalesce((convert_from(event.body, 'UTF8')::json #>> '{payload,usage,output_tokens}')::bigint, 0), 0
    FROM run JOIN event ON event.session_id = run.session_id AND event.position >= run.position
        AND event.type = 'llm_end' AND to_char(to_timestamp(event.ts) AT TIME ZONE 'UTC', 'YYYY-MM-DD') = ?1
    WHERE run.state <> 'ended'
) AS used GROUP BY tenant;

-- name: used_in_session
WITH own AS (
    SELECT position, seconds FROM (
        SELECT position, seconds, state FROM run WHERE session_id = ?1 AND tenant = ?2 ORDER BY round DESC LIMIT 1
    ) AS newest WHERE state <> 'ended'
), spent AS (
    SELECT count(*) AS steps,
        coalesce(sum(coalesce((convert_from(body, 'UTF8')::json #>> '{payload,usage,input_tokens}')::bigint, 0)
        + coalesce((convert_from(body, 'UTF8')::json #>> '{payload,usage,output_tokens}')::bigint, 0)), 0)::bigint AS tokens
    FROM own JOIN event ON event.session_id = ?1 AND event.position >= own.position AND event.type = 'llm_end'
)
SELECT session.steps + spent.steps, session.tokens + spent.tokens,
    session.seconds + coalesce((SELECT seconds FROM own), 0.0), session.log_bytes + session.filed
FROM session CROSS JOIN spent WHERE session.id = ?1 AND session.tenant = ?2;

-- name: bytes_of
SELECT coalesce((SELECT sum(held) FROM tenant_tally WHERE tenant = ?1), 0)::bigint FROM tenant WHERE name = ?1;

-- name: bytes_held
SELECT name, coalesce((SELECT sum(held) FROM tenant_tally WHERE tenant = name), 0)::bigint FROM tenant;
