"""The package as it is installed: the console is in sdist and wheel, and without Node there is still a wheel."""

import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def building() -> ModuleType:
    """console/build.py, which is no part of any package."""
    spec = importlib.util.spec_from_file_location("console_build", ROOT / "console/build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sdist_and_wheel_have_the_console_with_all_that_its_page_names(tmp_path: Path, building: ModuleType) -> None:
    if building.main([]) == building.NO_NODE:
        pytest.skip("there is no Node; `make node` installs it")
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation"]
    subprocess.run([*build, "--python", sys.executable, "--out-dir", tmp_path, ROOT], check=True)
    (sdist,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(sdist) as files:
        inside = {name.partition("/")[2] for name in files.getnames()}
    assert {"src/stellwerk/console/index.html", "console/.built"} <= inside, "no Node is needed to build from it"
    with zipfile.ZipFile(wheel) as files:
        page = files.read("stellwerk/console/index.html").decode()
        named = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page)
        assert named and {f"stellwerk/console/{name}" for name in named} <= set(files.namelist())
        assert "console/build.py" not in files.namelist()


def test_without_node_nothing_is_built_and_what_is_there_stays(
    tmp_path: Path, building: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(building, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(building, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(building, "INSTALLED", tmp_path / "installed")
    assert building.main([]) == building.NO_NODE
    assert "Node is not installed" in capfd.readouterr().err
