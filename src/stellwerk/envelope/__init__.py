"""The envelope: the one stored form of everything that happens. Pure: no clock, no I/O."""
