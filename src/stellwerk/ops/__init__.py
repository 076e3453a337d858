"""Operations: start the server, back up and restore, work on a data folder without a server."""
