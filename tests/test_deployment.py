"""The files of examples/deploy do what their page says, as far as one machine can tell."""

import asyncio
import configparser
import json
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.client import connect
from websockets.typing import Origin

from stellwerk.api.http.server import listener
from stellwerk.settings import Settings
from tests import keyed
from tests.conftest import running_server
from tests.crash.waiting import eventually

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "examples/deploy"
HOST = "agents.example.org"
MAIN = """
daemon off;
master_process off;
error_log stderr;
pid {0}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {0}/body;
    proxy_temp_path {0}/proxy;
    fastcgi_temp_path {0}/fastcgi;
    uwsgi_temp_path {0}/uwsgi;
    scgi_temp_path {0}/scgi;
    include {0}/site.conf;
}}
"""


def certificate(folder: Path) -> ssl.SSLContext:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "site.pem").write_bytes(made.public_bytes(pem))
    (folder / "site.key").write_bytes(key.private_bytes(pem, *form))
    return ssl.create_default_context(cafile=str(folder / "site.pem"))


def configured(folder: Path, port: int, upstream: str) -> Path:
    """The site as it lies there, with a port, a certificate and a server of ours."""
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server 127.0.0.1:8000", f"server {upstream.removeprefix('http://')}"),
        (f"/etc/ssl/certs/{HOST}.pem", str(folder / "site.pem")),
        (f"/etc/ssl/private/{HOST}.key", str(folder / "site.key")),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "site.conf").write_text(text)
    (folder / "nginx.conf").write_text(MAIN.format(folder))
    return folder / "nginx.conf"


@asynccontextmanager
async def behind_nginx(folder: Path, upstream: str) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """The port on which nginx stands in front of a server, and whom to trust there."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed: apt-get install nginx")
    trusted = certificate(folder)
    with listener("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    config = configured(folder, port, upstream)
    process = await asyncio.create_subprocess_exec(nginx, "-c", str(config), "-e", "stderr")

    async def listens() -> bool:
        assert process.returncode is None, "nginx has ended"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True

    try:
        await eventually(listens, within=60, what="nginx does not listen")
        yield port, trusted
    finally:
        process.terminate()
        await process.wait()


async def arrivals(client: httpx2.AsyncClient, sid: str, **how: Any) -> dict[int, float]:
    """When each event of a run arrives, by its position, on the clock of this machine."""
    found: dict[int, float] = {}
    path = f"/sessions/{sid}/stream"
    async with client.stream("GET", path, params={"until": "run_end"}, **how) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                found[json.loads(line[6:])["position"]] = asyncio.get_running_loop().time()
    return found


async def test_words_arrive_behind_nginx_as_they_are_said(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", hosts=HOST)
    key = await keyed.before_the_start(settings.data)
    async with (
        running_server(settings) as upstream,
        behind_nginx(tmp_path, upstream) as (port, trusted),
        httpx2.AsyncClient(base_url=upstream, timeout=60, headers=key) as direct,
        httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            timeout=60,
            transport=httpx2.AsyncHTTPTransport(verify=trusted, local_address="127.0.0.2"),
            headers={**key, "Host": HOST, "X-Forwarded-For": "203.0.113.9"},
        ) as proxied,
    ):
        named: dict[str, Any] = {"extensions": {"sni_hostname": HOST}}
        sid = (await proxied.post("/sessions", json={"agent_system_id": "demo"}, **named)).json()["id"]
        (begun,) = [e for e in (await direct.get("/audit")).json()["entries"] if e["what"] == "POST /sessions"]
        assert begun["origin"] == "127.0.0.2"
        await direct.post(f"/sessions/{sid}/messages", json={"text": "hello"})
        readers = [
            asyncio.create_task(arrivals(direct, sid)),
            asyncio.create_task(arrivals(proxied, sid, **named)),
        ]
        here, there = await asyncio.gather(*readers)
        assert here.keys() == there.keys() and len(here) > 20
        spoken = max(here.values()) - min(here.values())
        late = median(there[position] - here[position] for position in here)
        assert late < spoken / 4, f"behind nginx each event comes {late:.3f} s later, of {spoken:.3f} s in all"
        assert max(there.values()) - min(there.values()) > spoken / 2, "all came at once"
        assert (await proxied.get("/metrics", **named)).status_code == 404
        place, origin = f"wss://{HOST}:{port}/sessions/{sid}/ws?after={max(here) - 1}", f"https://{HOST}:{port}"
        shown: dict[str, Any] = {"ssl": trusted, "origin": Origin(origin), "additional_headers": key}
        async with connect(place, host="127.0.0.1", **shown) as socket:
            assert json.loads(await asyncio.wait_for(socket.recv(), 60))["event"]["position"] == max(here)


async def test_what_is_too_large_is_the_server_s_to_refuse_behind_nginx(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", hosts=HOST)
    key = await keyed.before_the_start(settings.data)
    async with (
        running_server(settings) as upstream,
        behind_nginx(tmp_path, upstream) as (port, trusted),
        httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{port}", timeout=60, verify=trusted, headers={**key, "Host": HOST}
        ) as proxied,
    ):
        named: dict[str, Any] = {"extensions": {"sni_hostname": HOST}}
        for size, status in ((20, 200), (60, 200), (70, 431)):
            long = {f"X-Long-{number}": "x" * 10_000 for number in range(size // 10)}
            assert (await proxied.get("/healthz", headers=long, **named)).status_code == status
        assert (await proxied.get("/healthz", headers={"X-Long": "x" * 20_000}, **named)).status_code == 200
        for size in (24, 27, 40):
            files = {"file": ("a.bin", bytes(size * 2**20))}
            answer = await proxied.post("/files", files=files, **named)
            if size == 24:
                assert answer.status_code == 201
            else:
                assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    text = (DEPLOY / "stellwerk.service").read_text("utf-8")
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert [*unit] == ["DEFAULT", "Unit", "Service", "Install"]
    assert unit["Service"]["ExecStart"].split()[1:] == ["serve"]
    named = set(re.findall(r"^Environment=STELLWERK_(\w+)=", text, re.MULTILINE))
    assert {name.lower() for name in named} <= set(Settings.model_fields)
    if shutil.which("systemd-analyze") is not None:
        (tmp_path / "stellwerk.service").write_text(text.replace("/opt/stellwerk/bin/stellwerk", sys.executable))
        command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "stellwerk.service")]
        done = subprocess.run(command, capture_output=True, text=True)
        about = [line for line in done.stderr.splitlines() if "stellwerk.service" in line]
        assert not about, "\n".join(about)


def test_the_container_runs_the_server_with_settings_that_there_are_and_without_rights() -> None:
    text = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    said = dict(lines)
    assert {name.lower() for name in re.findall(r"STELLWERK_(\w+)=", said["ENV"])} <= set(Settings.model_fields)
    assert json.loads(said["ENTRYPOINT"]) == ["stellwerk"] and json.loads(said["CMD"]) == ["serve"]
    assert said["USER"] == "10001" and "useradd --system --create-home --uid 10001 stellwerk" in text
    compile(json.loads(said["HEALTHCHECK"].removeprefix("CMD "))[2], "HEALTHCHECK", "exec")
