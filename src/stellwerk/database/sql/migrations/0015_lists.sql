-- A page of the sessions of a tenant, or of those that were started as workflows, is read without looking at all others.
CREATE INDEX session_listed ON session (tenant, id);
CREATE INDEX session_workflow ON session (tenant, id) WHERE workflow = 1;
-- A standing knows tasks that have failed: all are folded anew.
DROP TABLE IF EXISTS standing;
