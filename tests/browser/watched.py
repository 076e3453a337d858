"""Pages that are watched: no request to another origin, nothing against the policy, no word on the error console."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.keyed import shown_to

Watched = Any
"""A page of Playwright, which need not be installed for the types to be checked."""
WIDE, PHONE = {"width": 1360, "height": 860}, {"width": 390, "height": 844}
AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
    window.violations.push(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`));
"""
_KEY = 'sessionStorage.setItem("stellwerk.key", "%s");'
_PATIENCE = 60_000


@asynccontextmanager
async def watched(browser: Any, address: str) -> AsyncIterator[Callable[..., Awaitable[Watched]]]:
    contexts: list[Any] = []
    complaints: list[str] = []

    async def opening(path: str = "", **options: Any) -> Watched:
        context = await browser.new_context(**{"viewport": WIDE, "locale": "en-US", **options})
        context.set_default_timeout(_PATIENCE)
        contexts.append(context)
        await context.add_init_script(_VIOLATIONS)
        if bearer := shown_to(address).get("Authorization"):
            await context.add_init_script(_KEY % bearer.removeprefix("Bearer "))
        page = await context.new_page()
        _listen(page, address, complaints)
        await page.goto(f"{address}/{path}")
        return page

    try:
        yield opening
        for context in contexts:
            for page in context.pages:
                complaints += await page.evaluate("window.violations")
    finally:
        for context in contexts:
            await context.close()
    assert not complaints, "\n".join(complaints)


def _listen(page: Any, address: str, complaints: list[str]) -> None:
    def asked(request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(address).netloc and not request.url.startswith("data:"):
            complaints.append(f"a request to another origin: {request.url}")

    def said(message: Any) -> None:
        # The browser itself logs 4xx responses; they are not errors of the page.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            complaints.append(f"{message.type} on the console: {message.text}")

    page.on("request", asked)
    page.on("console", said)
    page.on("pageerror", lambda error: complaints.append(f"an error of the page: {error}"))


async def accessible(page: Watched) -> None:
    """Axe finds nothing serious on the page as it is now."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text("utf-8") + ";0")
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        f"{one['id']} ({one['impact']}): {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert not serious, "\n".join(serious)


async def of_server(page: Watched, path: str) -> Any:
    """What the server of a page answers, for those who want to compare."""
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(page.url))
    async with httpx2.AsyncClient(base_url=origin, timeout=60) as client:
        return (await client.get(path)).json()
