"""The tools of the release desk. They work on the files that lie beside this one."""

from pathlib import Path
from typing import Annotated, Literal

from stellwerk import tool

HERE = Path(__file__).parent


@tool(idempotent=True)
def list_changes(
    kind: Annotated[Literal["all", "feature", "fix"], "Only changes of this kind."] = "all",
) -> list[dict[str, str]]:
    """List what has changed since the last release."""
    rows = []
    for path in sorted((HERE / "changes").glob("*.txt")):
        of, _, text = path.read_text("utf-8").strip().partition(": ")
        if kind in ("all", of):
            rows.append({"number": path.stem, "kind": of, "text": text})
    return rows


@tool(idempotent=True)
def next_version(size: Annotated[Literal["patch", "minor", "major"], "How large the release is."]) -> str:
    """Say which version comes next."""
    major, minor, patch = map(int, (HERE / "VERSION").read_text("utf-8").split("."))
    following = {"patch": (major, minor, patch + 1), "minor": (major, minor + 1, 0), "major": (major + 1, 0, 0)}
    return ".".join(map(str, following[size]))


@tool(effects="write", idempotent=True)
def write_notes(
    version: Annotated[str, "Such as 1.5.0."],
    summary: Annotated[str, "One sentence above the list."],
) -> str:
    """Write the notes of a release into a file, with all changes in a list."""
    if not version.replace(".", "").isdigit():
        raise ValueError(f"{version!r} is no version; write it as 1.5.0")
    changes = [path.read_text("utf-8").strip() for path in sorted((HERE / "changes").glob("*.txt"))]
    lines = [f"# Release {version}", "", summary, "", *(f"- {change}" for change in changes)]
    (HERE / f"RELEASE-{version}.md").write_text("\n".join(lines) + "\n", "utf-8")
    return f"RELEASE-{version}.md"
