-- Whether a session of a tenant was deleted since a flush.
CREATE INDEX tombstone_touched ON tombstone (tenant, touched);
