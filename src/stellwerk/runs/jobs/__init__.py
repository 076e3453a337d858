"""Jobs: webhooks on the end of runs, and crons."""
