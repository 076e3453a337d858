"""A page about a service, written from what its repository holds and from nothing else. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from .observability import ALERTS, DASHBOARD
from .platform import MANIFESTS, PIPELINE
from .source import endpoints, metrics
from .templates import template_of

PAGE = "docs/service.md"

_ABOUT = {
    PIPELINE: "tests every push",
    MANIFESTS: "Kubernetes runs it by this",
    DASHBOARD: "Grafana imports it",
    ALERTS: "Prometheus loads it",
}


def page(name: str, files: Mapping[str, str], *, protected: Sequence[str], address: str) -> str:
    """The page; the same repository always gives the same."""
    parts = [
        f"# {name}",
        _origin(files, protected),
        _section("Get it", f"```sh\ngit clone {address}\n```"),
        _section("Endpoints", _list(f"`GET {path}`" for path in endpoints(files))),
        _section("Metrics", _list(f"`{metric}`, a {kind}" for metric, kind in sorted(metrics(files).items()))),
        _section("Test and run", _commands(files)),
        _section("Deploy", _deploying(name, files)),
        _section("Around it", _list(f"`{path}`: {about}" for path, about in _ABOUT.items() if path in files)),
        _section("Files", _list(f"`{path}`, {_lines(text)}" for path, text in sorted(files.items()) if path != PAGE)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _origin(files: Mapping[str, str], protected: Sequence[str]) -> str:
    template = template_of(files)
    said = f"A service in {template.language}, from the template `{template.name}`." if template else "No service yet."
    kept = ", ".join(f"`{branch}`" for branch in protected)
    return f"{said} Protected: {kept}; changes come by a branch that is merged." if kept else said


def _commands(files: Mapping[str, str]) -> str:
    template = template_of(files)
    if template is None:
        return ""
    build = f"{' '.join(template.build)}\n" if template.build else ""
    return f"```sh\n{template.test}\n{build}{' '.join(template.start)} --port 8080\n```"


def _deploying(name: str, files: Mapping[str, str]) -> str:
    steps = {
        "service.json": "- to staging: the tool `deploy_to_staging` starts main's newest commit and checks its health",
        "Dockerfile": f"- as an image: `docker build --tag {name} .`",
        MANIFESTS: f"- to a cluster: `kubectl apply -f {MANIFESTS}`",
    }
    return "\n".join(step for path, step in steps.items() if path in files)


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _lines(text: str) -> str:
    count = len(text.splitlines())
    return f"{count} line" if count == 1 else f"{count} lines"
