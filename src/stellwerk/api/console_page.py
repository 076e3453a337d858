"""The console at /: one page and its assets, which come in the package; without them, how to get them.

It holds no data and asks for no key: whoever opens it is asked by the routes that it uses.
"""

import gzip
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

import stellwerk
from stellwerk.errors import NotFound

BUILT = Path(stellwerk.__file__).parent / "console"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"
)
_FOR_EVER = "public, max-age=31536000, immutable"
"""Their names change with what is in them."""
_UNBUILT = """\
<!doctype html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>Stellwerk</title>
<h1>Stellwerk is running</h1>
<p>The console has not been built in this checkout. With Node 20 or later, <code>make console</code> builds it;
load this page again then. Installed packages bring it along.</p>
<p>The API works without it: <a href="docs">docs</a> lists every route.</p>
"""


def install(app: FastAPI, built: Path = BUILT) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        """Asked for again each time, so that a new build is seen at once."""
        index = built / "index.html"
        text = await run_in_threadpool(index.read_text, "utf-8") if index.is_file() else _UNBUILT
        return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"})

    @app.get("/assets/{name}", include_in_schema=False)
    async def asset(request: Request, name: str) -> Response:
        folder = built / "assets"
        if not folder.is_dir() or name not in {path.name for path in folder.iterdir()}:
            raise NotFound("asset", name, remedy="load the page again: the console was built anew")
        packed = "gzip" in request.headers.get("accept-encoding", "")
        body = await run_in_threadpool(_content, folder / name, packed=packed)
        headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"} | (
            {"Content-Encoding": "gzip"} if packed else {}
        )
        return Response(body, media_type=guess_type(name)[0] or "application/octet-stream", headers=headers)


@lru_cache(maxsize=64)
def _content(path: Path, *, packed: bool) -> bytes:
    body = path.read_bytes()
    return gzip.compress(body, 9, mtime=0) if packed else body
