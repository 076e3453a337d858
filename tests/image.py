"""examples/deploy/Containerfile, performed: every stage by its own commands, and a server from what comes out.

It fetches packages, and takes most of a minute: `make image` runs it, and so does .ci/run.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.container import Build, Image, Stage, parsed
from tests.test_containerfile import DEPLOY, ROOT, pins

DRIVER = """
import json, os, signal, subprocess, sys, time, urllib.error, urllib.request
entrypoint, command, health = json.loads(sys.argv[1])
address = "http://127.0.0.1:8000"

def asked(path):
    with urllib.request.urlopen(address + path, timeout=60) as answer:
        return answer.status, answer.read().decode()

first_key = [*entrypoint, "keys", "create", "me", "--role", "admin", "--data", "/data"]
subprocess.run(first_key, check=True, capture_output=True)
server = subprocess.Popen([*entrypoint, *command], stdout=sys.stderr)
while True:
    try:
        ready = asked("/readyz")
        break
    except urllib.error.URLError:
        assert server.poll() is None, "the server has ended"
        time.sleep(0.05)
checked = subprocess.run(health, check=False).returncode
page = asked("/")[1]
asset = asked("/assets/" + page.split('src="./assets/')[1].split('"')[0])
server.send_signal(signal.SIGTERM)
print(json.dumps({
    "user": os.getuid(), "ready": ready, "health": checked, "page": page, "asset": asset[0],
    "ended": server.wait(), "packages": sorted(os.listdir(next(p for p in sys.path if p.endswith("site-packages")))),
}))
"""


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    return {stage.name: stage for stage in parsed((DEPLOY / "Containerfile").read_text("utf-8"))}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("without a container engine only root performs a Containerfile, with unshare and chroot")
    roots = tmp_path_factory.mktemp("image")
    yield Build(ROOT, roots)
    subprocess.run(["rm", "-rf", roots], check=True)


@pytest.fixture(scope="module")
def image(build: Build, stages: dict[str, Stage]) -> Image:
    return [build.perform(stage) for stage in stages.values()][-1]


def test_the_image_is_built_and_its_server_is_ready_and_serves_the_console(image: Image) -> None:
    words = image.words
    told = json.loads(
        image.start(
            ["python", "-c", DRIVER, json.dumps([words["ENTRYPOINT"], words["CMD"], words["HEALTHCHECK"]])]
        ).splitlines()[-1]
    )
    assert told["ready"] == [200, '{"status":"ready"}']
    assert told["health"] == 0
    assert "<title>Stellwerk</title>" in told["page"]
    assert told["asset"] == 200
    assert told["user"] == 10001
    assert told["ended"] == 0
    installed = {name.partition("-")[0].lower() for name in told["packages"] if name.endswith(".dist-info")}
    assert installed - {"stellwerk"} <= {
        name.replace("-", "_").replace(".", "_") for name in pins(DEPLOY / "runtime.lock")
    }


@pytest.mark.usefixtures("image")
def test_a_file_that_is_not_copied_fails_the_build(build: Build, stages: dict[str, Stage]) -> None:
    lacking = Stage("console", "lacking")
    lacking.steps = [(word, rest.replace("hatch_build.py ", "")) for word, rest in stages["wheel"].steps]
    with pytest.raises(AssertionError, match=r"hatch_build\.py"):
        build.perform(lacking)
