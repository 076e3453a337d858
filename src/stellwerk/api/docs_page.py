"""/docs: the list of routes with forms. It needs no other host, and runs no script but its own."""

import base64
import hashlib
import re

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse

PATH = "/docs"
_STATIC = "/static-offline-docs"
_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def install(app: FastAPI) -> None:
    @app.get(PATH, include_in_schema=False)
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
        made.headers["Content-Security-Policy"] = _policy(bytes(made.body))
        return made


def _policy(page: bytes) -> str:
    """The script in the page is named by its digest: no other can be slipped in."""
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _SCRIPT.findall(page))
    return _POLICY.format(scripts=" ".join(f"'sha256-{digest}'" for digest in digests))
