"""An MCP server: each agent system is a tool. Its modules but ``routes`` need the extra ``mcp``."""
