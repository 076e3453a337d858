"""Serves Stellwerk with this page at /chat/, because a browser lets a page read only its own origin.

python examples/chat-front-end/serve.py
"""

from pathlib import Path

import uvicorn
from starlette.staticfiles import StaticFiles

from stellwerk import create_app
from stellwerk.settings import Settings

app = create_app(Settings(demo=True))  # the page talks to the demo system
app.mount("/chat", StaticFiles(directory=Path(__file__).parent / "page", html=True))

if __name__ == "__main__":
    print("open http://127.0.0.1:8000/chat/")
    uvicorn.run(app, port=8000, log_level="warning")
