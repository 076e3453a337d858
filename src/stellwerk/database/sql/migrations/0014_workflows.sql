-- Which sessions were started as workflows. Of those that are there already nobody knows: those whose system works by plan.
ALTER TABLE session ADD COLUMN workflow INTEGER NOT NULL DEFAULT 0;
UPDATE session SET workflow = 1 WHERE system IN (SELECT name FROM system WHERE instr(body, 'kind: workplan') > 0);
