"""The web API: commands in, projections of the log out."""
