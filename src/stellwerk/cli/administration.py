"""Commands of an administrator: tenants, keys, secrets, usage, audit; backup and restore."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Context, Exit, Option, Typer, prompt

from stellwerk.cli.shared import (
    WHERE,
    AsJson,
    Tenant,
    Url,
    group,
    in_home,
    local_time,
    print_lines,
    print_rows,
    settings_with,
    talk,
)

_TENANTS = ("NAME", "NUMBER", "MADE", "STATE")
_KEYS = ("ID", "NAME", "USER", "ROLE", "SCOPES", "STATE", "LAST USED")
_SECRETS = ("NAME", "AGENT SYSTEM", "MADE", "CHANGED", "STATE")
_AUDIT = ("NUMBER", "WHEN", "WHO", "WHAT", "ON", "OUTCOME", "FROM")
_USAGE = ("DAY", "USER", "SYSTEM", "MODEL", "RUNS", "SECONDS", "MODEL CALLS", "TOKENS IN", "OUT", "TOOL CALLS")
_PAGE = 500

Fields = dict[str, Any]
Limit = int | None
Row = Callable[[Fields], tuple[str, ...]]
TenantName = Annotated[str, Argument(help="Of the tenant.")]
SecretName = Annotated[str, Argument(help="What it is for, such as openai_api_key.")]
Data = Annotated[Path, Option(help="The data folder of the server.", callback=in_home)]
RunningData = Annotated[Path, Option(help="The data folder of the server, which may be running.", callback=in_home)]
DatabaseUrl = Annotated[
    str | None, Option("--database", help="The URL of its PostgreSQL database. [default: STELLWERK_DATABASE]")
]
_BACK_UP = "back it up with pg_dump or its write-ahead log, and the folder of documents after it"
System = Annotated[str | None, Option("--system", help="That of one agent system. [default: of the tenant]")]

tenant_commands = group("Tenants: teams that share a server and see nothing of each other.")
key_commands = group("API keys: access to a server, and its scopes.")
secret_commands = group("Secrets: keys that agents use, and that cannot be read back.")
audit_commands = group("Audit: a tamper-evident log of who did what.")
usage_commands = Typer()
data_commands = Typer()


@tenant_commands.command("list", epilog=WHERE)
def list_tenants(url: Url = None, as_json: AsJson = False) -> None:
    """List the tenants of a server."""
    _list(url, "tenants", _TENANTS, _tenant_row, as_json=as_json)


@tenant_commands.command("create", epilog=WHERE)
def create_tenant(
    name: Annotated[str, Argument(help="Lower-case letters, digits and dashes.")], url: Url = None
) -> None:
    """Create a tenant. For the operator of the server: needs a key of an admin of the tenant local."""
    first = f"stellwerk keys create NAME --tenant {name} --role admin"
    done = f"made the tenant {name}; now make a key for its admin: {first}"
    _do(url, "POST", "tenants", done=done, json={"name": name})


@tenant_commands.command("lock", epilog=WHERE)
def lock_tenant(name: TenantName, url: Url = None) -> None:
    """Lock a tenant out: its keys and tokens are rejected, its streams end, its runs are stopped."""
    _do(url, "PUT", "tenants", name, "lock", done=f"the tenant {name} is locked")


@tenant_commands.command("unlock", epilog=WHERE)
def unlock_tenant(name: TenantName, url: Url = None) -> None:
    """Unlock a tenant; its keys are valid again."""
    _do(url, "DELETE", "tenants", name, "lock", done=f"the tenant {name} is not locked")


def _limit(help: str, *, least: int = 0) -> Any:
    return Option(help=help, min=least)


@tenant_commands.command("limits", epilog=WHERE)
def limits(  # noqa: PLR0913  an option for each limit
    context: Context,
    name: TenantName,
    requests: Annotated[Limit, _limit("Requests of the tenant in a minute.", least=1)] = None,
    runs: Annotated[Limit, _limit("Runs that are under way or wait.")] = None,
    streams: Annotated[Limit, _limit("Streams that are open.")] = None,
    bytes: Annotated[Limit, _limit("Bytes of its sessions and files.")] = None,
    steps: Annotated[Limit, _limit("Calls of models in a day.")] = None,
    tokens: Annotated[Limit, _limit("Tokens in a day, those that go in included.")] = None,
    seconds: Annotated[Limit, _limit("Seconds in a day in which runs are under way.")] = None,
    session_requests: Annotated[Limit, _limit("Requests to one session in a minute.", least=1)] = None,
    session_streams: Annotated[Limit, _limit("Streams of one session.")] = None,
    session_bytes: Annotated[Limit, _limit("Bytes of one session and its files.")] = None,
    session_steps: Annotated[Limit, _limit("Calls of models in one session.")] = None,
    session_tokens: Annotated[Limit, _limit("Tokens in one session.")] = None,
    session_seconds: Annotated[Limit, _limit("Seconds of the runs of one session.")] = None,
    none: Annotated[bool, Option("--none", help="Remove all limits.")] = False,
    url: Url = None,
) -> None:
    """Limit the use of a tenant, and of each of its sessions; what is not named is not limited.

    For the operator of the server: needs a key of an admin of the tenant local.

    \b
      stellwerk tenants limits acme                      print the limits
      stellwerk tenants limits acme --requests 600 --runs 5 --tokens 1000000
      stellwerk tenants limits acme --none               remove all limits
    """
    others = ("name", "none", "url")
    limits = {key: value for key, value in context.params.items() if key not in others}
    given = {key: value for key, value in limits.items() if value is not None}
    if none and given:
        raise BadParameter("--none takes all limits away; leave it out to set some")
    if given or none:
        listed = ", ".join(f"{limit} {number}" for limit, number in given.items())
        done = f"from now on, of {name}: {listed or 'nothing is limited'}"
        return _do(url, "PUT", "tenants", name, "limits", done=done, json=given)

    page = _ask(url, "GET", "/usage", params={"tenant": name, "limit": 1})
    print_lines(_limit_lines(page) or ["nothing is limited"])


@usage_commands.command(epilog=WHERE)
def usage(
    url: Url = None,
    days: Annotated[int, Option(help="How many, today included.", min=1)] = 30,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Print the usage of a tenant by day (UTC), user, system and model, the newest day first.

    The limits follow, each with how much of it is used.
    """
    query: Fields = {"days": days, "limit": _PAGE, **_named(tenant)}
    page = _ask(url, "GET", "/usage", params=query)
    rows = page["usage"]
    while page["next"] is not None:
        page = _ask(url, "GET", "/usage", params={**query, "after": page["next"]})
        rows += page["usage"]
    limits = [] if as_json else _limit_lines(page)
    print_rows(rows, _USAGE, _usage_row, as_json=as_json)
    print_lines(["", *limits] if limits else [])


@key_commands.command("list", epilog=WHERE)
def list_keys(tenant: Tenant = None, url: Url = None, as_json: AsJson = False) -> None:
    """List the keys of your tenant, without their secrets."""
    _list(url, "keys", _KEYS, _key_row, as_json=as_json, tenant=tenant)


@key_commands.command("create", epilog=WHERE)
def create_key(  # noqa: PLR0913  an option for each field of a key
    name: Annotated[str, Argument(help="What it is for. Two keys of one name can be valid at a time.")],
    role: Annotated[str, Option(help="reader, member or admin.")] = "member",
    user: Annotated[str | None, Option(help="Whose it is.")] = None,
    scope: Annotated[
        list[str] | None,
        Option(help="Less than the role may: read, run, register, administer, metrics; repeat it."),
    ] = None,
    days: Annotated[int | None, Option(help="Days after which it expires. [default: never]", min=1, max=3660)] = None,
    tenant: Tenant = None,
    url: Url = None,
    data: Annotated[
        Path | None,
        Option(help="Instead of asking a server: the data folder of one that is not running.", callback=in_home),
    ] = None,
    database: DatabaseUrl = None,
) -> None:
    """Create a key and print it, this once; nothing else goes to standard output.

    The first key of a server must be an admin's. From then on every request needs a key.

    \b
      stellwerk keys create me --role admin              on a server without keys, on this machine
      stellwerk keys create me --role admin --data data  before it was ever started
      stellwerk keys create ci --scope run --days 90     one that can only run things

    To rotate a key: create another of the same name, use it, then `stellwerk keys revoke` the old
    one.
    """
    wanted: Fields = {"name": name, "role": role, "user": user, "scopes": scope or None, "tenant": tenant}
    wanted["expires_in"] = None if days is None else days * 86_400

    if data is not None or database is not None:
        import asyncio

        from stellwerk.ops.offline import make_key

        settings = settings_with(data, database)
        key, token = asyncio.run(make_key(settings.data, wanted, settings.database))
        key_id = key.id
    else:
        made = _ask(url, "POST", "/keys", json=wanted)
        key_id = made["id"]
        token = made["token"]
    print_lines([token])  # alone on standard output, for a file or a variable
    sys.stderr.write(f"this is key {key_id}; it is not shown again. Keep it as STELLWERK_KEY\n")


@key_commands.command("revoke", epilog=WHERE)
def revoke_key(
    key_id: Annotated[str, Argument(metavar="ID", help="Its id; `stellwerk keys list` lists them.")],
    tenant: Tenant = None,
    last: Annotated[bool, Option("--last", help="Even if no other key of an admin is valid.")] = False,
    url: Url = None,
) -> None:
    """Revoke a key: it is rejected from now on, and the streams that it has opened are closed.

    The last key of an admin is kept unless --last is given: its tenant could create no other. For
    the tenant local, `stellwerk keys create NAME --role admin --data FOLDER` creates one while the
    server is stopped.
    """
    query = _named(tenant) | ({"last": "true"} if last else {})
    _do(url, "DELETE", "keys", key_id, done=f"key {key_id} is revoked", params=query)


@secret_commands.command("list", epilog=WHERE)
def list_secrets(url: Url = None, as_json: AsJson = False) -> None:
    """List the secrets of your tenant, without their values."""
    _list(url, "secrets", _SECRETS, _secret_row, as_json=as_json)


@secret_commands.command("set", epilog=WHERE)
def set_secret(name: SecretName, system: System = None, url: Url = None) -> None:
    """Store a secret, or replace its value. The value is asked for, or read from a pipe.

    \b
      stellwerk secrets set openai_api_key                    asks for it
      stellwerk secrets set openai_api_key < key.txt          reads it
      stellwerk secrets set openai_api_key --system helpdesk  for one agent system alone
    """
    can_ask = sys.stdin is not None and sys.stdin.isatty()
    value = prompt("Value", hide_input=True, err=True) if can_ask else sys.stdin.read()
    done = f"stored {name}{_for_system(system)}; the next run uses it"
    _do(url, "PUT", "secrets", name, done=done, json={"value": value, "agent_system_id": system})


@secret_commands.command("delete", epilog=WHERE)
def delete_secret(name: SecretName, system: System = None, url: Url = None) -> None:
    """Delete a secret; the next run does without it."""
    query = {} if system is None else {"agent_system_id": system}
    _do(url, "DELETE", "secrets", name, done=f"deleted {name}{_for_system(system)}", params=query)


@secret_commands.command("rotate", epilog=WHERE)
def rotate_master_key(url: Url = None) -> None:
    """Encrypt all secrets of a server with another master key, while it runs.

    For the operator of the server: needs a key of an admin of the tenant local.
    """
    done = _ask(url, "POST", "/secrets/rotation")
    key = done["key"]
    left = done["left"]
    changed = f"{done['sealed']} secrets are sealed with the master key {key} now"
    same = f"nothing changed: {key} is still the master key; let the command print a new one first"
    sys.stderr.write(f"{changed if done['changed'] else same}\n")
    if left:
        sys.stderr.write(f"{left} could not be opened; as long as they are there, keep the old keys\n")


@audit_commands.command("show", epilog=WHERE)
def show_audit(
    url: Url = None,
    after: Annotated[int, Option(help="Leave out entries up to this number.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Print the audit log of your tenant, the oldest entry first."""
    position: int | None = after
    while position is not None:
        page = _ask(url, "GET", "/audit", params={"after": position, "limit": _PAGE})
        print_rows(page["entries"], _AUDIT, _audit_row, as_json=as_json)
        position = page["next"]


@audit_commands.command("verify")
def verify_audit(
    data: RunningData = Path("data"),
    database: DatabaseUrl = None,
) -> None:
    """Verify the hash chain of every tenant's audit log in a data folder, entry by entry.

    The exit code is 0 if all are intact, and 1 if an entry was changed, removed or inserted.
    Entries cut off at the end cannot be detected: compare the number and hash of the last entry
    with those of the previous check.
    """

    from stellwerk.ops.offline import verified

    settings = settings_with(data, database)
    found = verified(settings.data, settings.database)
    for each in found:
        state = "whole" if each.whole else f"BROKEN at entry {each.entries + 1}"
        entries = f"{each.entries} entries hold, the last with hash {each.hash.hex()}"
        print_lines([f"{each.tenant}: {state}; {entries}"])
    if not found:
        print_lines([f"the audit log in {data} has no entries"])
    raise Exit(0 if all(each.whole for each in found) else 1)


@data_commands.command("backup")
def make_backup(
    target: Annotated[
        Path, Argument(metavar="TARGET", help="A folder that is empty, or not there yet.", callback=in_home)
    ],
    data: Data = Path("data"),
    documents: Annotated[
        str | None, Option(help="Where documents are, as for `stellwerk serve`; those in an object store stay there.")
    ] = None,
) -> None:
    """Copy a data folder, also while its server runs.

    Every session is complete up to a position, with every document that it names. Keep the copy as
    safe as the original: it holds every message.
    """
    from stellwerk.database.folder import MASTER_KEY
    from stellwerk.database.opening import refuse_postgres
    from stellwerk.ops.backup import backup

    settings = settings_with(data)
    refuse_postgres(settings, remedy=_BACK_UP)
    place = documents or settings.documents
    copied = backup(data, target, place)
    line = f"{target} holds {data} with {copied} documents"
    if copied is None:
        line = f"{target} holds {data} without its documents, which stay in {place}"
    if (data / MASTER_KEY).exists():
        line += f", but not {MASTER_KEY}: keep that elsewhere"
    print_lines([line])


@data_commands.command("restore")
def restore_backup(
    source: Annotated[Path, Argument(metavar="BACKUP", help="What `stellwerk backup` has made.", callback=in_home)],
    data: Data = Path("data"),
) -> None:
    """Put a backup into an empty data folder.

    Runs that were in progress at the time of the backup resume, or end as failed, when the server
    starts.
    """
    from stellwerk.database.opening import refuse_postgres
    from stellwerk.ops.backup import restore

    refuse_postgres(settings_with(data), remedy=_BACK_UP)
    documents = restore(source, data)
    held = "without documents" if documents is None else f"with {documents} documents"
    print_lines([f"{data} holds what {source} held, {held}; start it with --data {data}"])


@data_commands.command("move")
def move_to_postgres(
    database: Annotated[str, Option("--database", help="The URL of an empty PostgreSQL database.")],
    data: Data = Path("data"),
    documents: Annotated[
        str | None, Option(help="Where documents go, as for `stellwerk serve`; by default they stay in the folder.")
    ] = None,
) -> None:
    """Move the data of a stopped server to PostgreSQL; the folder stays as it is.

    Every session is compared before the move counts. If it is interrupted, run it again.
    """
    import asyncio

    from stellwerk.errors import SettingsError

    try:
        from stellwerk.ops.move import move
    except ImportError as error:
        raise SettingsError(
            f"PostgreSQL needs a package that is not installed: {error}; pip install 'path/to/stellwerk[postgres]'"
        ) from error
    moved = asyncio.run(move(data, database, documents, lambda line: print_lines([line])))
    print_lines(
        [
            f"{moved.sessions} sessions are equal on both sides; {moved.rows} rows, {moved.documents} documents and "
            f"{moved.items} items were moved",
            f"copy master.key of {data} to the data folder of each node, and start them with --database",
        ]
    )


def _ask(url: str | None, method: str, path: str, **more: Any) -> Fields:
    return talk(url, lambda client: client.ask(Fields, method, path, **more))


def _do(url: str | None, method: str, *path: str, done: str, **more: Any) -> None:
    """Send a request, and print a line if it succeeds."""
    from stellwerk.client.paths import part

    place = "".join(f"/{part(each)}" for each in path)
    talk(url, lambda client: client.request(method, place, **more))
    sys.stderr.write(f"{done}\n")


def _list(
    url: str | None, name: str, headings: tuple[str, ...], row: Row, *, as_json: bool, tenant: str | None = None
) -> None:
    found = _ask(url, "GET", f"/{name}", params=_named(tenant))[name]
    print_rows(found, headings, row, as_json=as_json)


def _named(tenant: str | None) -> Fields:
    return {} if tenant is None else {"tenant": tenant}


def _for_system(system: str | None) -> str:
    return "" if system is None else f" for {system}"


def _limit_lines(page: Fields) -> list[str]:
    """Each limit, with the use where that is known for the tenant as a whole."""
    lines = []
    for name, most in page["limits"].items():
        used = page["used"].get(name)
        if most is not None:
            lines.append(f"{name}: {'at most' if used is None else f'{used:g} of'} {most}")
    return lines


def _tenant_row(tenant: Fields) -> tuple[str, ...]:
    state = "locked" if tenant["locked"] else "-"
    return tenant["name"], str(tenant["number"]), local_time(tenant["created_at"] or None), state


def _key_row(key: Fields) -> tuple[str, ...]:
    scopes = "all" if key["scopes"] is None else ",".join(key["scopes"])
    user = key["user"] or "-"
    used = local_time(key["last_used"])
    return key["id"], key["name"], user, key["role"], scopes, _key_state(key), used


def _key_state(key: Fields) -> str:
    from stellwerk.ids import SystemClock

    revoked = key["revoked_at"]
    expires = key["expires_at"]
    if revoked is not None:
        return f"revoked {local_time(revoked)}"
    if expires is None:
        return "valid"
    return f"{'until' if expires > SystemClock().now() else 'expired'} {local_time(expires)}"


def _secret_row(secret: Fields) -> tuple[str, ...]:
    system = secret["agent_system_id"] or "all"
    created = local_time(secret["created_at"])
    updated = local_time(secret["updated_at"])
    state = "stored" if secret["readable"] else "UNREADABLE: store it again"
    return secret["name"], system, created, updated, state


def _audit_row(entry: Fields) -> tuple[str, ...]:
    target = " ".join(f"{name}={value}" for name, value in entry.get("on", {}).items())
    number = str(entry["number"])
    outcome = str(entry["outcome"])
    origin = entry.get("origin", "")
    return number, local_time(entry["at"]), entry["who"], entry["what"], target, outcome, origin


def _usage_row(row: Fields) -> tuple[str, ...]:
    labels = (row["day"], row["user"] or "-", row["system"], row["model"] or "-")
    counts = (row["model_calls"], row["input_tokens"], row["output_tokens"], row["tool_calls"])
    return *labels, str(row["runs"]), f"{row['seconds']:.1f}", *map(str, counts)
