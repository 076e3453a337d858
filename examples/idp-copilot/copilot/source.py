"""What a repository's own source says about the service: its endpoints and its metrics. Pure; nothing is run."""

import re
from collections.abc import Iterator, Mapping

_SOURCE = (".py", ".js", ".go")
_ENDPOINT = re.compile(r"""["'](/[a-z0-9_/-]*)["']""")
_METRIC = re.compile(r"# TYPE ([a-z_:][a-z0-9_:]*) (counter|gauge|summary|histogram)")


def endpoints(files: Mapping[str, str]) -> list[str]:
    """Paths that the source names as text of their own, sorted."""
    return sorted({path for text in _sources(files) for path in _ENDPOINT.findall(text)})


def metrics(files: Mapping[str, str]) -> dict[str, str]:
    """Names of metrics, and the type of each."""
    return {name: kind for text in _sources(files) for name, kind in _METRIC.findall(text)}


def _sources(files: Mapping[str, str]) -> Iterator[str]:
    for name, text in sorted(files.items()):
        if name.endswith(_SOURCE) and not _is_test(name.rpartition("/")[2]):
            yield text


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name.endswith(("_test.go", ".test.js"))
