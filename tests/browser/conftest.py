"""What every test of the console uses: a real server, a real browser, and a page that nothing may go wrong on.

All tests share a browser and an event loop, those of a file a server; each has a page of its own, with nothing stored
in it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from stellwerk.api.routes.pages import BUILT
from tests.browser.browsers import find
from tests.browser.film import Film
from tests.browser.watched import Watched, watched

IMAGES = Path(__file__).parents[2] / "docs/images"
_QUIET = "() => ![...document.querySelectorAll('[aria-live=polite].fixed')].some((notes) => notes.children.length)"
"""No note covers the page."""
Screenshot = Callable[[object, str], Awaitable[None]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[object]:
    playwright = pytest.importorskip("playwright.async_api", reason="`make browser` installs Playwright")
    program = find()
    if program is None:
        pytest.skip("there is no Chrome or Chromium; `make browser` says why")
    if not (BUILT / "index.html").is_file():
        pytest.skip("the console is not built; `make console` builds it")
    async with playwright.async_playwright() as playing:
        opened = await playing.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def new_page(browser: object, shared_address: str) -> AsyncIterator[Callable[..., Awaitable[Watched]]]:
    """Opens pages of this server; options are those of a browser context. When the test is over, all was well on each.

    ``await new_page(color_scheme="dark", viewport=PHONE)``
    """
    async with watched(browser, shared_address) as opening:
        yield opening


@pytest_asyncio.fixture(loop_scope="session")
async def page(new_page: Callable[..., Awaitable[Watched]]) -> Watched:
    """A wide page in English."""
    return await new_page()


@pytest.fixture
def screenshot(pytestconfig: pytest.Config) -> Screenshot:
    """``await screenshot(page, "systems-dark")`` writes docs/images/systems-dark.png, with --screenshots."""

    async def take(page: object, name: str) -> None:
        if pytestconfig.getoption("--screenshots"):
            IMAGES.mkdir(exist_ok=True)
            await page.wait_for_function(_QUIET)  # type: ignore[attr-defined]
            taken = await page.screenshot(animations="disabled")  # type: ignore[attr-defined]
            picture = Image.open(BytesIO(taken)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
            picture.save(IMAGES / f"{name}.png", optimize=True)

    return take


@pytest.fixture
def film(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Film:
    """``await film.begin(page)``, ``await film.end()``: in test_crash.py they make crash.gif, with --screenshots."""
    name = f"{request.path.stem.removeprefix('test_')}.gif"
    return Film(IMAGES / name if pytestconfig.getoption("--screenshots") else None)
