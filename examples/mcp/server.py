"""An MCP server for the operator's file: keeps notes while it runs, over stdio."""

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

app = MCPServer("notes", log_level="WARNING")
_notes: list[str] = []


@app.tool(annotations=ToolAnnotations(destructive_hint=False))
def write(text: str) -> str:
    """Write a note down."""
    _notes.append(text)
    return f"Note {len(_notes)} is kept."


@app.tool(annotations=ToolAnnotations(read_only_hint=True))
def search(word: str) -> list[str]:
    """Find the notes that have a word."""
    return [note for note in _notes if word.lower() in note.lower()]


if __name__ == "__main__":
    app.run()
