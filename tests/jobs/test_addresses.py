"""The SSRF guard: which addresses a tenant's webhook may have."""

import asyncio
import threading
from collections import Counter
from ipaddress import ip_address
from typing import Any

import httpx2
import pytest

from stellwerk.errors import InvalidField
from stellwerk.runs.jobs.addresses import AddressRefused, Resolver, check_url, is_allowed
from stellwerk.spec.operator import WebhookPolicy
from stellwerk.threads import left

DEFAULT = WebhookPolicy()
PRIVATE = """127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    192.0.2.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 ::1 :: fe80::1 fc00::1 fec0::1 ff02::1 2001:db8::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1::
    ::127.0.0.1""".split()
PUBLIC = "1.1.1.1 8.8.8.8 2606:4700:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_that_is_not_public_is_allowed_in_any_spelling(address: str) -> None:
    assert not is_allowed(ip_address(address), DEFAULT)
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidField, match="webhook"):
        check_url(f"https://{host}/hook", DEFAULT)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(ip_address(address), DEFAULT)


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "a.localhost", "localhost."]
)
async def test_other_spellings_of_this_machine_lead_nowhere(host: str) -> None:
    try:
        url = check_url(f"https://{host}/", DEFAULT)
    except InvalidField:
        return
    with pytest.raises(AddressRefused):
        await Resolver().resolve(url, DEFAULT)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://example.com/", "plain http"),
        ("ftp://example.com/", "not a URL of a web server"),
        ("file:///etc/passwd", "not a URL of a web server"),
        ("/hook", "not a URL of a web server"),
        ("https://", "not a URL of a web server"),
        ("https://ada:secret@example.com/", "user and password"),
        ("https://example.com/#there", "fragment"),
        ("https://example.com:0/", "there is no port 0"),
        ("https://example.com:99999/", "there is no port 99999"),
        ("https://exa mple.com\x00/", "webhook"),
        ("https://[::1", "webhook"),
    ],
)
def test_a_url_that_is_none_is_refused_with_a_reason(url: str, problem: str) -> None:
    with pytest.raises(InvalidField, match=problem):
        check_url(url, DEFAULT)


def test_the_operator_narrows_hosts_and_ports_and_opens_networks() -> None:
    policy = WebhookPolicy(
        allowed_hosts=["*.example.com", "10.1.2.3"], allowed_ports=[443], private_networks=["10.1.0.0/16"]
    )
    assert check_url("https://hooks.example.com/a?b=c", policy).host == "hooks.example.com"
    assert check_url("https://10.1.2.3/", policy).host == "10.1.2.3"
    for refused in ("https://example.com/", "https://example.org/", "https://a.example.com:8443/", "https://10.2.0.1/"):
        with pytest.raises(InvalidField):
            check_url(refused, policy)
    with pytest.raises(InvalidField, match="turned webhooks off"):
        check_url("https://a.example.com/", WebhookPolicy(enabled=False))


async def test_a_name_is_judged_by_what_it_resolves_to() -> None:
    url = httpx2.URL("https://localhost/")
    with pytest.raises(AddressRefused, match="not a public address"):
        await Resolver().resolve(url, DEFAULT)
    assert await Resolver().resolve(url, WebhookPolicy(private_networks=["127.0.0.0/8", "::1/128"])) in (
        "127.0.0.1",
        "::1",
    )
    with pytest.raises(AddressRefused, match="cannot be resolved"):
        await Resolver().resolve(httpx2.URL("https://nowhere.invalid/"), DEFAULT)


class HangingNames:
    """A name server that answers for some names only when it is released; its addresses are public."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: Counter[str] = Counter()

    def __call__(self, host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        self.asked[host] += 1
        if host.startswith("slow"):
            self.released.wait()
        return [(None, None, 0, "", ("1.1.1.1", 0))]


def url_of(name: str) -> httpx2.URL:
    return httpx2.URL(f"https://{name}.example.com/")


async def test_lookups_that_hang_have_a_time_limit_few_threads_and_hold_up_no_other_work() -> None:
    names = HangingNames()
    resolver = Resolver(names, at_once=3, within=0.2)
    try:
        hanging = [resolver.resolve(url_of(f"slow{number}"), DEFAULT) for number in range(8)]
        ends = await asyncio.gather(*hanging, return_exceptions=True)
        assert [str(end) for end in ends] == [
            f"the name {url_of(f'slow{n}').host!r} cannot be resolved" for n in range(8)
        ]
        assert left() >= 3  # which no server that ends waits for
        assert len(names.asked) == 3  # the others waited for a thread until their time was over
        assert await asyncio.to_thread(lambda: "done") == "done"
        assert await resolver.resolve(httpx2.URL("https://1.0.0.1/"), DEFAULT) == "1.0.0.1"
    finally:
        names.released.set()
    assert await Resolver(names).resolve(url_of("fast"), DEFAULT) == "1.1.1.1"


async def test_a_name_whose_lookup_hangs_takes_one_thread_however_often_it_is_looked_up() -> None:
    names = HangingNames()
    resolver = Resolver(names, at_once=2, within=0.2)
    try:
        for _ in range(3):
            with pytest.raises(AddressRefused):
                await resolver.resolve(url_of("slow"), DEFAULT)
        assert names.asked == {"slow.example.com": 1}
        assert await Resolver(names, at_once=1).resolve(url_of("fast"), DEFAULT) == "1.1.1.1"
    finally:
        names.released.set()
    # The one that was under way gives its answer; then the name is looked up again.
    while names.asked["slow.example.com"] == 1:
        assert await resolver.resolve(url_of("slow"), DEFAULT) == "1.1.1.1"
