"""The client: a server's sessions from Python. Asynchronous, over HTTP, and without the server's own code."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from stellwerk.client.answers import Accepted, Event, Listing, Page, Session, Stopped, Uploaded
from stellwerk.client.following import Following, Lost, nothing_said
from stellwerk.client.problems import Unreachable, problem_of, reason_of
from stellwerk.errors import InvalidInput

URL = "http://127.0.0.1:8000"
Profile = Literal["user", "debug"]
IfBusy = Literal["reject", "enqueue", "interrupt"]

_PAGE = 1000
_CONNECTING, _ANSWERING = 10.0, 60.0
_Said = TypeVar("_Said")


class Client:
    """Sessions of the server at ``url``; to be used as ``async with Client() as client``.

    ``key`` is sent as a bearer token, to a server that asks for one.
    Every method raises ``Problem`` for what the server refuses, and ``Unreachable`` if nobody answers.
    """

    def __init__(self, url: str = URL, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        timeout = httpx2.Timeout(_ANSWERING, connect=_CONNECTING)
        self._http = httpx2.AsyncClient(headers=headers, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def sessions(self, *, limit: int = 50) -> list[Session]:
        """The one with the latest activity first."""
        found: list[Session] = []
        before: dict[str, Any] = {}
        while len(found) < limit:
            wanted = {"limit": min(limit - len(found), 500), **before}
            page = await self.ask(Listing, "GET", "/sessions", params=wanted)
            found += page.sessions
            if page.next is None:
                break
            before = {"before": page.next}
        return found

    async def session(self, session_id: str) -> Session:
        return await self.ask(Session, "GET", f"/sessions/{part(session_id)}")

    async def begin(self, system: str = "demo", *, user: str | None = None, workflow: bool = False) -> Session:
        """Listed as a chat, or as a ``workflow``."""
        body: dict[str, Any] = {"agent_system_id": system}
        if user is not None:
            body["user_id"] = user
        if workflow:
            body["workflow"] = True
        return await self.ask(Session, "POST", "/sessions", json=body)

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        documents: Sequence[str] = (),
        if_busy: IfBusy = "reject",
        key: str | None = None,
    ) -> Accepted:
        """A message, perhaps with files that were uploaded before.

        With a ``key`` it may be sent again when nobody knows whether it arrived.
        """
        body = {"text": text, "if_busy": if_busy} | ({"documents": list(documents)} if documents else {})
        return await self.ask(Accepted, "POST", f"/sessions/{part(session_id)}/messages", json=body, key=key)

    async def answer(
        self,
        session_id: str,
        text: str | None = None,
        *,
        data: Any = None,
        ask_id: str = "",
        refused: bool = False,
        key: str | None = None,
    ) -> Accepted:
        """To a question; to the only one if ``ask_id`` is left out."""
        body = {"text": text, "data": data, "ask_id": ask_id, "refused": refused}
        return await self.ask(Accepted, "POST", f"/sessions/{part(session_id)}/answers", json=body, key=key)

    async def stop(self, session_id: str, *, reason: str | None = None) -> Stopped:
        return await self.ask(Stopped, "POST", f"/sessions/{part(session_id)}/stop", json={"reason": reason})

    async def upload(self, file: Path) -> str:
        """The id of the file, for a message."""
        with file.open("rb") as opened:
            answer = await self._answer("POST", "/files", files={"file": (file.name, opened)})
        return msgspec.json.decode(answer.content, type=Uploaded).id

    async def download(self, document_id: str) -> bytes:
        return (await self._answer("GET", f"/files/{part(document_id)}")).content

    async def delete(self, session_id: str) -> None:
        await self._answer("DELETE", f"/sessions/{part(session_id)}")

    async def revoke_key(self, key_id: str, *, tenant: str | None = None, last: bool = False) -> None:
        """``tenant`` is another than yours, if you run the server; ``last``: also if it is the last of an admin."""
        wanted = {} if tenant is None else {"tenant": tenant}
        if last:
            wanted["last"] = "true"
        await self._answer("DELETE", f"/keys/{part(key_id)}", params=wanted)

    async def lock_tenant(self, name: str, *, locked: bool = True) -> None:
        await self._answer("PUT" if locked else "DELETE", f"/tenants/{part(name)}/lock")

    async def store_secret(self, name: str, value: str, *, system: str | None = None) -> None:
        await self._answer("PUT", f"/secrets/{part(name)}", json={"value": value, "agent_system_id": system})

    async def delete_secret(self, name: str, *, system: str | None = None) -> None:
        wanted = {} if system is None else {"agent_system_id": system}
        await self._answer("DELETE", f"/secrets/{part(name)}", params=wanted)

    async def events(
        self, session_id: str, *, after: int = 0, profile: Profile = "user"
    ) -> AsyncGenerator[Event, None]:
        """What is in the log now."""
        while True:
            wanted = {"after": after, "limit": _PAGE, "profile": profile}
            page = await self.ask(Page, "GET", f"/sessions/{part(session_id)}/events", params=wanted)
            for line in page.events:
                yield Event(bytes(line))
            if page.next == after:
                return
            after = page.next

    def follow(
        self,
        session_id: str,
        *,
        after: int = 0,
        until: Literal["run_end"] | None = None,
        profile: Profile = "user",
        lost: Lost = nothing_said,
    ) -> AsyncGenerator[Event, None]:
        """What is behind ``after``, then whatever comes, each event once, however often the connection breaks.

        Only the first attempt must succeed; later it comes back by position until the server is there again, and
        ``lost`` is told of every attempt that fails. Ends with the next end of a run, if ``until`` says so.
        Whoever leaves earlier and goes on with something else puts it into ``contextlib.aclosing``.
        """
        wanted = {"profile": profile} if until is None else {"profile": profile, "until": until}
        path = f"/sessions/{part(session_id)}/stream"
        return Following(self._http, (self.url, path), wanted, lambda: self.session(session_id), lost).events(after)

    async def ask(self, kind: type[_Said], method: str, path: str, *, key: str | None = None, **more: Any) -> _Said:
        """Anything that a server can be asked for, as data of this kind."""
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = await self._answer(method, path, headers=headers, **more)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(self.url, f"what answers is no Stellwerk ({reason_of(error)})") from error

    async def _answer(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> httpx2.Response:
        try:
            answer = await self._http.request(method, self.url + path, headers=headers, **more)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise Unreachable(self.url, reason_of(error)) from error
        if not answer.is_success:
            raise problem_of(answer)
        return answer


def part(text: str) -> str:
    """One part of a path, whatever somebody typed.

    Raises:
        InvalidInput: it would be none, and something else would be asked for.
    """
    if text in ("", ".", ".."):
        raise InvalidInput(f"{text!r} names nothing; say the id or the name of what you mean")
    return quote(text, safe="")
