"""Tools of MCP servers: sessions, transports, calls and results."""
