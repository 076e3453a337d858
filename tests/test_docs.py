"""What is documented is true, and what there is is documented."""

import asyncio
import re
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from stellwerk import errors
from stellwerk.envelope.model import Envelope
from stellwerk.settings import Settings
from stellwerk.spec.load import load_operator
from stellwerk.spec.operator import McpServer, Operator, Provider
from tests.conftest import own_server, running_server

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs/reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def test_every_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`([\w./-]+(?:\.py|/))`", (ROOT / "ARCHITECTURE.md").read_text("utf-8")))
    places = (ROOT / "src/stellwerk", ROOT)
    missing = {name for name in named if not any((place / name).exists() for place in places)}
    assert len(named) > 40
    assert not missing


def test_the_architecture_has_the_layers_that_are_checked() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [layer.translate(str.maketrans("", "", "()")) for layer in configured["layers"]]
    assert f"`{' > '.join(layers)}`" in (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def raised_codes() -> set[str]:
    """Every code that stands in the source as one."""
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    return set(re.findall(r'code(?: = |=)"(\w+)"', text))


def test_every_setting_is_documented_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        row = next((line for line in page("settings.md").splitlines() if f"`STELLWERK_{name.upper()}`" in line), "")
        assert row, f"docs/reference/settings.md lacks STELLWERK_{name.upper()}"
        assert str(field.default) in row.replace("./data", "data"), f"the default of {name} is {field.default}"


def test_every_field_of_the_operators_file_is_documented_and_the_example_loads() -> None:
    text = page("operator.md")
    example = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    assert example == (ROOT / "examples/operator.yaml").read_text("utf-8")
    assert load_operator(example, source="operator.md").mcp_servers.keys() == {"notes"}
    named = {f"mcp_servers.*.{name}" for name in McpServer.model_fields}
    named |= {f"providers.*.{name}" for name in Provider.model_fields} | set(Operator.model_fields)
    assert not {name for name in named if f"`{name}`" not in text}


def test_every_error_code_is_documented() -> None:
    declared = {e.code for e in vars(errors).values() if isinstance(e, type) and hasattr(e, "code")}
    missing = {code for code in raised_codes() | declared if f"`{code}`" not in page("errors.md")}
    assert not missing, f"docs/reference/errors.md lacks {missing}"


def test_every_envelope_type_is_documented() -> None:
    missing = {kind.__struct_config__.tag for kind in get_args(Envelope)} - set(
        re.findall(r"`(\w+)`", page("envelope.md"))
    )
    assert not missing


async def test_every_route_is_documented(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            assert f"`{method.upper()} {path}`" in page("http.md"), f"docs/reference/http.md lacks {method} {path}"
            assert described["summary"]


PAGES = [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", PAGES)
def test_every_link_between_pages_leads_somewhere(path: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / path).read_text("utf-8")):
        assert (ROOT / path).parent.joinpath(target).exists(), f"{path} links to {target}"


def test_every_page_of_the_docs_is_linked_from_another_page() -> None:
    linked = set()
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / path).read_text("utf-8")):
            resolved = (ROOT / path).parent.joinpath(target).resolve()
            if resolved != (ROOT / path).resolve():
                linked.add(resolved)
    missing = [path for path in PAGES if path.startswith("docs/") and (ROOT / path).resolve() not in linked]
    assert not missing, f"no page links to {missing}"


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub derives them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES)
def test_every_link_to_a_heading_leads_to_one(path: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", (ROOT / path).read_text("utf-8")):
        page = (ROOT / path).parent / target if target else ROOT / path
        assert anchor in anchors(page.read_text("utf-8")), f"{path} links to {target}#{anchor}"


async def test_the_tour_of_the_readme_works_as_it_stands(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    tour = next(block for block in blocks if "SID=$(" in block)
    async with running_server(Settings(data=tmp_path)) as address:
        script = tour.replace("localhost:8000", address.removeprefix("http://")).replace("curl -N", "curl -sN")
        assert "/stream\n" in script
        script = script.replace("/stream\n", "/stream?until=run_end\n")  # in place of Ctrl-C, when all was seen
        process = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=asyncio.subprocess.PIPE)
        output = (await process.communicate())[0].decode()
    assert '"status":"accepted"' in output
    for kind in ("llm_start", "llm_token", "tool_end", "run_end"):
        assert f'"type":"{kind}"' in output
    assert '"rows":[["Berlin","sunny",21]]' in output


async def test_the_library_example_runs_by_itself_and_the_readme_quotes_it() -> None:
    program = ROOT / "examples/library/shop.py"
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(240):
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0
    assert output.startswith("It costs 20 euros.\nRunStart ")
    assert "rows=(('lamp', 20),)" in output
    quoted = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert quoted
    assert all(block in program.read_text("utf-8") for block in quoted)


async def test_the_program_of_the_docs_runs(address: str, tmp_path: Path) -> None:
    howto = (ROOT / "docs/howto/client.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", howto, re.DOTALL)
    file = tmp_path / "program.py"
    file.write_text(program.replace("http://127.0.0.1:8000", address), "utf-8")
    process = await asyncio.create_subprocess_exec(sys.executable, str(file), stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(240):
        output, _ = await process.communicate()
    assert process.returncode == 0
    assert b"It is sunny" in output
