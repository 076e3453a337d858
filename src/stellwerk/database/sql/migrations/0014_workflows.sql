-- Which sessions were started as workflows. Of those that are there already nobody knows: those whose system works by plan.
ALTER TABLE session ADD COLUMN workflow INTEGER NOT NULL DEFAULT 0;
UPDATE session SET workflow = 1 WHERE EXISTS (SELECT 1 FROM system
    WHERE system.name = session.system AND system.tenant IN (session.tenant, 'local')
    AND (instr(body, 'kind: workplan') > 0 OR instr(body, '"workplan"') > 0));
