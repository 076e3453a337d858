"""The web console at / and Swagger UI at /docs: pages with a Content-Security-Policy, without other hosts.

They hold no data and need no key: the routes that they call authenticate.
"""

import base64
import gzip
import hashlib
import re
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

import stellwerk
from stellwerk.errors import NotFound

BUILT = Path(stellwerk.__file__).parent / "console"
_CONSOLE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"
)
_DOCS = "/docs"
_STATIC = "/static-offline-docs"
_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_FOR_EVER = "public, max-age=31536000, immutable"  # their names change with what is in them
_UNBUILT = """\
<!doctype html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>Stellwerk</title>
<h1>Stellwerk is running</h1>
<p>The console has not been built in this checkout. With Node 20 or later, <code>make console</code> builds it;
load this page again then. Installed packages bring it along.</p>
<p>The API works without it: <a href="docs">docs</a> lists every route.</p>
"""


def install_console(app: FastAPI, built: Path = BUILT) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        """Not cached, so that a new build is seen at once."""
        index = built / "index.html"
        text = await run_in_threadpool(index.read_text, "utf-8") if index.is_file() else _UNBUILT
        return HTMLResponse(text, headers={"Content-Security-Policy": _CONSOLE_POLICY, "Cache-Control": "no-cache"})

    @app.get("/assets/{name}", include_in_schema=False)
    async def asset(request: Request, name: str) -> Response:
        folder = built / "assets"
        if not folder.is_dir() or name not in {path.name for path in folder.iterdir()}:
            raise NotFound("asset", name, remedy="load the page again: the console was rebuilt")
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


def install_docs(app: FastAPI) -> None:
    @app.get(_DOCS, include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        made = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=f"{root}{_STATIC}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_STATIC}/swagger-ui.css",
            swagger_favicon_url=f"{root}{_STATIC}/favicon.png",
            swagger_ui_parameters=app.swagger_ui_parameters,
        )
        made.headers["Content-Security-Policy"] = _docs_policy(bytes(made.body))
        return made


def _docs_policy(page: bytes) -> str:
    """The inline script is allowed by its digest, so no other script can be injected."""
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _SCRIPT.findall(page))
    return _DOCS_POLICY.format(scripts=" ".join(f"'sha256-{digest}'" for digest in digests))
