"""How it is installed: no package index has Stellwerk or its client, so no text may name one as their source."""

import re

import pytest

from tests.test_layout import ROOT, known_to_git

INDEX_INSTALL = re.compile(
    r"\b(?:install|add|pipx run|uvx|npx)\s+(?:-\S+\s+)*['\"]?(?:stellwerk\b(?![/.-])|@stellwerk/)"  # a command
    r"|(?<![\w/~.-])stellwerk\[[a-z]"  # an extra of a package that is named like this, and not by its path
)


def found(text: str) -> list[str]:
    return [text[max(0, match.start() - 40) : match.end() + 40] for match in INDEX_INSTALL.finditer(text)]


def test_no_text_says_to_install_it_from_a_package_index() -> None:
    written = ((name, path.read_bytes().decode("utf-8", "replace")) for name, path in known_to_git(ROOT))
    complaints = [
        f"{name}: {each!r}" for name, text in written for each in found(text) if name != "tests/test_install_texts.py"
    ]
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize(
    "text",
    [
        "pip install stellwerk",
        "pip install --quiet 'stellwerk[mcp]'",
        "uv pip install stellwerk==0.1",
        "uv add stellwerk",
        "npm install --save @stellwerk/client",
        "uvx stellwerk serve",
        'MissingPackage("it", install="stellwerk[mcp]")',
    ],
)
def test_the_search_finds_such_a_text(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text", ["pip install 'path/to/stellwerk[mcp]'", "pip install ~/stellwerk'[openai]'", "install stellwerk.service"]
)
def test_the_search_leaves_a_path_alone(text: str) -> None:
    assert not found(text)
