-- What a tenant may use, as JSON; one without a row has no limits.
CREATE TABLE tenant_limits (
    tenant TEXT PRIMARY KEY,
    limits BLOB NOT NULL
) WITHOUT ROWID;

-- What was used, by day (UTC), user, system and model; counted when a run ends, or goes with its session. It outlives both.
-- The row without a model has what no model has: runs, their seconds, tool calls, and model calls that nobody counted.
CREATE TABLE usage (
    tenant        TEXT NOT NULL,
    day           TEXT NOT NULL,
    user          TEXT NOT NULL,
    system        TEXT NOT NULL,
    model         TEXT NOT NULL,
    model_calls   INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    tool_calls    INTEGER NOT NULL,
    runs          INTEGER NOT NULL,
    seconds       REAL NOT NULL,
    PRIMARY KEY (tenant, day, user, system, model)
) WITHOUT ROWID;
