"""A stand-in for model vendors on loopback: graphs of strangers run unchanged, with the same answers each time."""
