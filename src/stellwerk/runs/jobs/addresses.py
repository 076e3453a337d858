"""The SSRF guard: which addresses of tenants the server connects to.

A webhook's URL is checked when it is given, and its host is resolved for each attempt: the
connection goes to the address that was checked, so a name that resolves differently the next
moment leads nowhere else.
"""

import asyncio
import socket
from fnmatch import fnmatchcase
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import httpx2

from stellwerk.errors import InvalidField
from stellwerk.spec.operator import WebhookPolicy
from stellwerk.threads import RunThreads, RunWork, working

Address = IPv4Address | IPv6Address

_PORTS = {"http": 80, "https": 443}
_NAT64 = ip_network("64:ff9b::/96")
_UNICAST = ip_network("2000::/3")
"""The only part of IPv6 from which public addresses are given out."""
PRIVATE = (
    "is not a public address; the operator can allow its network with webhooks.private_networks in the operator's file"
)


class AddressRefused(Exception):
    """The server does not connect there; the text says why."""


def check_url(url: str, policy: WebhookPolicy) -> httpx2.URL:
    """Check everything that needs no name server.

    Raises:
        InvalidField: the URL cannot be a webhook on this server.
    """
    try:
        parsed = httpx2.URL(url)
        _refuse_url(parsed, policy)
    except (httpx2.InvalidURL, AddressRefused, UnicodeError) as error:
        raise InvalidField(f"webhook: {error}", field="webhook") from error
    return parsed


def _refuse_url(url: httpx2.URL, policy: WebhookPolicy) -> None:
    if not policy.enabled:
        raise AddressRefused("the operator of this server has turned webhooks off; leave it out")
    if url.scheme not in _PORTS or not url.host:
        raise AddressRefused("this is not a URL of a web server; write it like https://example.com/hook")
    if url.scheme == "http" and not policy.allow_http:
        remedy = "or ask the operator for webhooks.allow_http in the operator's file"
        raise AddressRefused(f"plain http is not allowed here; use https, {remedy}")
    if url.userinfo:
        raise AddressRefused("leave user and password out of the URL; receivers check the signature")
    if url.fragment:
        raise AddressRefused("a fragment (#…) is never sent to a server; leave it out")
    _refuse_port(_PORTS[url.scheme] if url.port is None else url.port, policy)
    if policy.allowed_hosts and not any(fnmatchcase(url.host, pattern) for pattern in policy.allowed_hosts):
        raise AddressRefused(f"the operator of this server does not allow the host {url.host!r}; ask for it")
    literal = _literal(url.host)
    if literal is not None and not is_allowed(literal, policy):
        raise AddressRefused(f"{url.host} {PRIVATE}")
    if url.host.rstrip(".").endswith("localhost") and not is_allowed(ip_address("127.0.0.1"), policy):
        raise AddressRefused(f"{url.host} {PRIVATE}")


def _refuse_port(port: int, policy: WebhookPolicy) -> None:
    if not 0 < port < 65_536:
        raise AddressRefused(f"there is no port {port}; leave it out, or write one up to 65535")
    if policy.allowed_ports and port not in policy.allowed_ports:
        allowed = ", ".join(map(str, policy.allowed_ports))
        raise AddressRefused(f"the operator of this server does not allow port {port}; allowed are: {allowed}")


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_allowed(address: Address, policy: WebhookPolicy) -> bool:
    """Public, or in a network that the operator allows. An IPv4 address inside an IPv6 one counts as itself."""
    inner = _embedded(address)
    if inner is not None:
        return is_allowed(inner, policy)
    if any(address in ip_network(network) for network in policy.private_networks):
        return True
    is_unicast = address in _UNICAST if isinstance(address, IPv6Address) else not address.is_multicast
    return address.is_global and is_unicast and not address.is_reserved


def _embedded(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour


class Resolver:
    """Name lookups in a few threads of their own, each with a time limit: one that hangs delays no other work.

    A thread cannot be ended, so a lookup keeps its thread until the system gives up. A name that is being looked
    up is not looked up a second time.
    """

    def __init__(self, getaddrinfo: Any = socket.getaddrinfo, *, at_once: int = 8, within: float = 10.0) -> None:
        self._getaddrinfo = getaddrinfo
        self._within = within
        self._threads = RunThreads(at_once, "names")
        self._under_way: dict[str, asyncio.Future[Any]] = {}

    async def resolve(self, url: httpx2.URL, policy: WebhookPolicy) -> str:
        """Resolve the host; all of its addresses must be allowed.

        Raises:
            AddressRefused: the name is unknown, or one of its addresses is not allowed.
        """
        literal = _literal(url.host)
        addresses = [literal] if literal is not None else await self._look_up(url.host)
        for address in addresses:
            if not is_allowed(address, policy):
                raise AddressRefused(f"{url.host} resolves to {address}, which {PRIVATE}")
        if not addresses:
            raise AddressRefused(f"the name {url.host!r} has no address")
        return str(addresses[0])

    async def _look_up(self, host: str) -> list[Address]:
        found = self._under_way.get(host)
        if found is None:
            wanted = partial(self._getaddrinfo, host, None, type=socket.SOCK_STREAM)
            with working(RunWork()):  # a server that ends does not wait for it
                found = asyncio.get_running_loop().run_in_executor(self._threads, wanted)
            self._under_way[host] = found
            found.add_done_callback(lambda done: self._forget(host, done))
        try:
            # Not cancelled with this one: others may wait for the same lookup.
            async with asyncio.timeout(self._within):
                places = await asyncio.shield(found)
        except (OSError, TimeoutError, UnicodeError) as error:
            raise AddressRefused(f"the name {host!r} cannot be resolved") from error
        return [ip_address(str(place[0]).partition("%")[0]) for *_, place in places]

    def _forget(self, host: str, done: asyncio.Future[Any]) -> None:
        del self._under_way[host]
        if not done.cancelled():
            done.exception()  # also if no one waits for it any more
