"""The same app with Stellwerk mounted in it, behind the same auth dependency.

python -m uvicorn --app-dir examples/embedding app:app
"""

from pathlib import Path

from auth import current_user
from fastapi import Depends, FastAPI

import stellwerk

GRAPH = Path(__file__).parent / "assistant.py"

agents = stellwerk.create_app(own={"assistant": f"{GRAPH}:graph"}, dependencies=[Depends(current_user)])

app = FastAPI(dependencies=[Depends(current_user)], lifespan=lambda _: stellwerk.opened(agents))
app.mount("/agents", agents)


@app.get("/hello")
async def hello() -> str:
    return "hello"
