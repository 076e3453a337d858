The statements of limits, and of what was used.

-- name: set_limits
INSERT INTO tenant_limits (tenant, limits) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM tenant WHERE name = ?1)
ON CONFLICT (tenant) DO UPDATE SET limits = excluded.limits;

-- name: all_limits
SELECT tenant, limits FROM tenant_limits;

What a run has used, from its own envelopes: all of these types from its start on. To be counted once, when it ends or goes
with its session. Seconds are those in which it was under way: not in the queue, and not without a server.

-- name: count_usage
WITH told AS (
    SELECT run.tenant, session."user", session.system, event.type, event.ts,
        CASE event.type WHEN 'llm_end' THEN CAST(event.body AS TEXT) ->> '$.payload.usage' END AS spent,
        CASE event.position WHEN session.last_position
            THEN run.seconds + max(0.0, coalesce(event.ts - run.begun_at, 0.0)) ELSE 0.0 END AS seconds
    FROM run JOIN session ON session.id = run.session_id
    JOIN event ON event.session_id = run.session_id AND event.position >= run.position
        AND (event.type IN ('run_start', 'llm_end', 'tool_end') OR event.position = session.last_position)
    WHERE run.id = ?1 AND run.tenant = ?2
)
INSERT INTO usage (tenant, day, "user", system, model,
    model_calls, input_tokens, output_tokens, tool_calls, runs, seconds)
SELECT tenant, date(ts, 'unixepoch'), coalesce("user", ''), system, coalesce(spent ->> '$.model', ''),
    sum(type = 'llm_end'),
    sum(coalesce(spent ->> '$.input_tokens', 0)),
    sum(coalesce(spent ->> '$.output_tokens', 0)),
    sum(type = 'tool_end'),
    sum(type = 'run_start'),
    sum(seconds)
FROM told GROUP BY 2, 5
ON CONFLICT (tenant, day, "user", system, model) DO UPDATE SET
    model_calls = usage.model_calls + excluded.model_calls,
    input_tokens = usage.input_tokens + excluded.input_tokens,
    output_tokens = usage.output_tokens + excluded.output_tokens,
    tool_calls = usage.tool_calls + excluded.tool_calls,
    runs = usage.runs + excluded.runs,
    seconds = usage.seconds + excluded.seconds;

The same for the session of a run that has ended.

-- name: count_in_session
UPDATE session SET steps = session.steps + own.steps, tokens = session.tokens + own.tokens, seconds = session.seconds + own.seconds
FROM (
    SELECT run.session_id, sum(event.type = 'llm_end') AS steps,
        sum(CASE event.type WHEN 'llm_end'
            THEN coalesce(CAST(event.body AS TEXT) ->> '$.payload.usage.input_tokens', 0)
                + coalesce(CAST(event.body AS TEXT) ->> '$.payload.usage.output_tokens', 0) ELSE 0 END) AS tokens,
        max(run.seconds + max(0.0, coalesce(event.ts - run.begun_at, 0.0))) AS seconds
    FROM run JOIN event ON event.session_id = run.session_id AND event.position >= run.position
        AND event.type IN ('llm_end', 'run_end')
    WHERE run.id = ?1 AND run.tenant = ?2 GROUP BY run.id
) AS own WHERE session.id = own.session_id;

-- name: usage_page
SELECT day, nullif("user", ''), system, nullif(model, ''), model_calls, input_tokens, output_tokens, tool_calls, runs,
    round(seconds, 3) FROM usage
WHERE tenant = ?1 AND day >= ?2 ORDER BY day DESC, "user", system, model LIMIT ?3 OFFSET ?4;

What each tenant has used on a day: by runs that are over, and by those that are not, as far as it is in the log.

-- name: used_on
SELECT tenant, sum(steps), sum(tokens), sum(seconds) FROM (
    SELECT tenant, model_calls AS steps, input_tokens + output_tokens AS tokens, seconds FROM usage
    WHERE tenant IN (SELECT name FROM tenant) AND day = ?1
    UNION ALL
    SELECT tenant, 0, 0, seconds FROM run WHERE state <> 'ended'
    UNION ALL
    SELECT run.tenant, 1, coalesce(CAST(event.body AS TEXT) ->> '$.payload.usage.input_tokens', 0)
        + coalesce(CAST(event.body AS TEXT) ->> '$.payload.usage.output_tokens', 0), 0
    FROM run JOIN event ON event.session_id = run.session_id AND event.position >= run.position
        AND event.type = 'llm_end' AND date(event.ts, 'unixepoch') = ?1
    WHERE run.state <> 'ended'
) AS used GROUP BY tenant;

What is kept of the runs that are over, and the events of its last run if that is not over; and how many bytes it holds.

-- name: used_in_session
WITH own AS (
    SELECT position, seconds FROM (
        SELECT position, seconds, state FROM run WHERE session_id = ?1 AND tenant = ?2 ORDER BY round DESC LIMIT 1
    ) AS newest WHERE state <> 'ended'
), spent AS (
    SELECT count(*) AS steps, coalesce(sum(coalesce(CAST(body AS TEXT) ->> '$.payload.usage.input_tokens', 0)
        + coalesce(CAST(body AS TEXT) ->> '$.payload.usage.output_tokens', 0)), 0) AS tokens
    FROM own JOIN event ON event.session_id = ?1 AND event.position >= own.position AND event.type = 'llm_end'
)
SELECT session.steps + spent.steps, session.tokens + spent.tokens,
    session.seconds + coalesce((SELECT seconds FROM own), 0.0), session.told + session.filed
FROM session JOIN spent WHERE session.id = ?1 AND session.tenant = ?2;

-- name: count_runs_of
SELECT count(*) FROM run WHERE state <> 'ended' AND tenant = ?;

-- name: bytes_told
SELECT told FROM session WHERE id = ? AND tenant = ?;

-- name: bytes_in_session
SELECT told + filed FROM session WHERE id = ? AND tenant = ?;

-- name: bytes_of
SELECT held FROM tenant WHERE name = ?;

-- name: bytes_held
SELECT name, held FROM tenant;
