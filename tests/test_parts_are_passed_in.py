"""Tests pass timings and parts in (``stellwerk.app.Parts``); they replace no name of our own modules."""

import ast
from pathlib import Path

import pytest

from tests.test_layout import ROOT, plant, trees

# The only file that replaces a name of ours: it looks up entry points once for the whole suite.
PATCHED_BY = {"tests/conftest.py"}


def patched_modules(root: Path) -> list[str]:
    return [
        f"{name}:{call.lineno}: replaces a name of Stellwerk; pass the part in, see stellwerk.app.Parts"
        for name, tree in trees(root, ["tests"], holding=r"\.setattr\(")
        if name not in PATCHED_BY
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _is_patch(call, _imported_from_us(tree))
    ]


def _imported_from_us(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "stellwerk":
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            ours = [alias for alias in node.names if alias.name.partition(".")[0] == "stellwerk"]
            names |= {alias.asname or "stellwerk" for alias in ours}
    return names


def _is_patch(call: ast.Call, ours: set[str]) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "setattr" or not call.args:
        return False
    target = call.args[0]
    if isinstance(target, ast.JoinedStr):
        target = target.values[0]
    if isinstance(target, ast.Constant):
        return str(target.value).startswith("stellwerk.")
    while isinstance(target, ast.Attribute):
        target = target.value
    return isinstance(target, ast.Name) and target.id in ours


def test_no_test_replaces_a_name_of_our_own_modules() -> None:
    complaints = patched_modules(ROOT)
    assert not complaints, "\n".join(["", *complaints])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('monkeypatch.setattr("stellwerk.app.A", 1)', [1]),
        ('from stellwerk import app\npatch.setattr(app.Sqlite, "a", 1)', [2]),
        ('import sys\nmonkeypatch.setattr(sys, "path", [])', []),
    ],
)
def test_a_replaced_name_is_reported(tmp_path: Path, text: str, lines: list[int]) -> None:
    plant(tmp_path, "tests/a.py", text)
    assert [complaint.split(":")[1] for complaint in patched_modules(tmp_path)] == [str(line) for line in lines]
