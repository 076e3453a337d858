"""The stream: what the framework says becomes envelopes. Pure: facts in, envelopes out."""
