"""The log: one durable, append-only list of envelopes per session, and how to follow it."""
