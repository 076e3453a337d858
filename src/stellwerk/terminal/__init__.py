"""What `stellwerk run` shows and asks: one agent, in this process, without a server and without a store."""
