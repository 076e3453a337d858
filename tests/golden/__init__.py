"""Golden files: what was reviewed once and must stay so, byte by byte."""
