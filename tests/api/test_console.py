"""The console as the server serves it: one page under a strict policy, and assets that a browser may keep."""

import gzip
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from stellwerk.api.http import problems
from stellwerk.api.routes import pages

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"
)
SCRIPT = "console.log('hello');" * 50


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text('<script src="./assets/index-1a2b.js">', "utf-8")
    (tmp_path / "assets/index-1a2b.js").write_text(SCRIPT, "utf-8")
    (tmp_path / "secret.txt").write_text("not an asset", "utf-8")
    return tmp_path


@pytest.fixture
def visitor(built: Path) -> httpx2.AsyncClient:
    app = FastAPI()
    problems.install(app)
    pages.install_console(app, built)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://stellwerk")


async def test_the_page_allows_nothing_but_its_own_files(visitor: httpx2.AsyncClient) -> None:
    page = await visitor.get("/")
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["cache-control"] == "no-cache", "the next build is seen at once"
    assert "index-1a2b.js" in page.text


async def test_an_asset_is_kept_for_ever_and_comes_packed_if_one_likes(
    visitor: httpx2.AsyncClient, built: Path
) -> None:
    plain = await visitor.get("/assets/index-1a2b.js", headers={"Accept-Encoding": "identity"})
    assert (plain.text, plain.headers["content-type"]) == (SCRIPT, "text/javascript; charset=utf-8")
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    packed = await visitor.get("/assets/index-1a2b.js", headers={"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip" and packed.text == SCRIPT
    assert int(packed.headers["content-length"]) == len(gzip.compress(SCRIPT.encode(), 9, mtime=0))


@pytest.mark.parametrize("name", ["gone.js", "..%2Fsecret.txt", "%2E%2E%2Fsecret.txt", "..", "", "."])
async def test_nothing_but_assets_can_be_had(visitor: httpx2.AsyncClient, name: str) -> None:
    answer = await visitor.get(f"/assets/{name}")
    assert answer.status_code in (404, 200) and "not an asset" not in answer.text
    if name == "gone.js":
        assert "load the page again" in answer.json()["detail"]


async def test_without_the_build_the_page_says_how_to_build_it(visitor: httpx2.AsyncClient, built: Path) -> None:
    (built / "index.html").unlink()
    page = await visitor.get("/")
    assert page.status_code == 200 and "make console" in page.text and 'href="docs"' in page.text
    assert page.headers["content-security-policy"] == POLICY
