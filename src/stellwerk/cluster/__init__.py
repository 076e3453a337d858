"""Several nodes on one PostgreSQL database: who is alive, who drives which run, and who hears of what."""
