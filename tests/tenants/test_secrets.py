"""Secrets at rest: sealed for their place, under a key that nobody else reads, and sealed anew when it changes."""

import asyncio
import shutil
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.database.folder import MASTER_KEY
from stellwerk.database.port import Database
from stellwerk.errors import Conflict, InvalidField, NotFound, SettingsError, StorageGone
from stellwerk.redaction.redactor import Redactors
from stellwerk.tenants.master_key import KeyCommand, KeyFile, MasterKeys, Unopened, key_source
from stellwerk.tenants.secrets import LONGEST, MOST, Secrets, open_secrets
from tests import stores
from tests.samples import StillClock

CANARY = "sk-Canary-4711-and-more"


async def opened(database: Database, folder: Path, redactors: Redactors | None = None) -> Secrets:
    return await open_secrets(database, KeyFile(folder / MASTER_KEY), redactors or Redactors(), StillClock())


def holding(text: str, folder: Path) -> list[str]:
    return [name for name, data in stores.contents(folder).items() if text.encode() in data]


async def test_a_system_has_its_own_or_else_its_tenants(database: Database, tmp_path: Path) -> None:
    secrets = await opened(database, tmp_path)
    await secrets.put("acme", "openai_api_key", "of-the-Tenant")
    await secrets.put("acme", "openai_api_key", "of-the-System", system="desk")
    again = await opened(database, tmp_path)
    for each in (secrets, again):
        assert each.find("acme", "desk", "openai_api_key") == "of-the-System"
        assert each.find("acme", "other", "openai_api_key") == "of-the-Tenant"
        assert each.find("other", "desk", "openai_api_key") is None
    assert [(found.name, found.agent_system_id, found.readable) for found in await again.list("acme")] == [
        ("openai_api_key", None, True),
        ("openai_api_key", "desk", True),
    ]
    await again.delete("acme", "openai_api_key", system="desk")
    assert again.find("acme", "desk", "openai_api_key") == "of-the-Tenant"
    with pytest.raises(NotFound):
        await again.delete("other", "openai_api_key")


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "a" * 65, "a|b", "ä", "a/b"])
async def test_a_name_that_could_be_something_else_is_refused(database: Database, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidField):
        await (await opened(database, tmp_path)).put("acme", name, CANARY)


@pytest.mark.parametrize(
    "value", ["", "short1", "   x       ", "tool_start", "A" * 8193, "nul\0-in-it1", "half\ud800-1234"]
)
async def test_a_value_that_could_not_be_kept_out_of_texts_is_refused_and_not_repeated(
    database: Database, tmp_path: Path, value: str
) -> None:
    with pytest.raises(InvalidField) as refused:
        await (await opened(database, tmp_path)).put("acme", "token", value)
    assert not value.strip() or value not in str(refused.value)


async def test_a_tenant_has_only_so_many(database: Database, tmp_path: Path) -> None:
    secrets = await opened(database, tmp_path)
    for number in range(MOST):
        await secrets.put("acme", f"key_{number}", CANARY)
    await secrets.put("acme", "key_0", CANARY)
    with pytest.raises(Conflict):
        await secrets.put("acme", "one_more", CANARY)
    await secrets.put("other", "one_more", CANARY)


async def test_the_secrets_of_a_tenant_have_only_so_many_characters_together(
    database: Database, tmp_path: Path
) -> None:
    secrets = await opened(database, tmp_path)
    for n in range(8):
        await secrets.put("acme", f"key_{n}", f"{n}" * LONGEST)
    with pytest.raises(Conflict, match="at most 65536 characters together, and with this one 65544") as refused:
        await secrets.put("acme", "one_more", "8" * 8)
    assert refused.value.code == "too_many_secrets"
    assert [each.name for each in await secrets.list("acme")] == [f"key_{n}" for n in range(8)]
    await secrets.put("other", "one_more", "8" * 8)
    await secrets.put("acme", "key_0", "x" * (LONGEST - 8) + "1")
    with pytest.raises(Conflict):
        await secrets.put("acme", "one_more", "8" * 8)
    await secrets.put("acme", "key_0", "X" * (LONGEST - 8))
    await secrets.put("acme", "one_more", "8" * 8)


async def test_of_more_secrets_than_that_which_were_stored_before_each_can_be_replaced(
    database: Database, tmp_path: Path
) -> None:
    former = await opened(database, tmp_path)
    former.most_characters = 10 * LONGEST
    for n in range(10):
        await former.put("acme", f"key_{n}", f"{n}" * LONGEST)
    secrets = await opened(database, tmp_path)
    await secrets.put("acme", "key_0", "X" * LONGEST)
    assert secrets.find("acme", "", "key_0") == "X" * LONGEST
    with pytest.raises(Conflict):
        await secrets.put("acme", "one_more", "8" * 8)


async def test_the_redactor_of_a_tenant_knows_what_is_stored_and_what_was_a_moment_ago(
    database: Database, tmp_path: Path
) -> None:
    redactors = Redactors(["of-the-Operator"])
    secrets, acme, other = await opened(database, tmp_path, redactors), redactors.of("acme"), redactors.of("other")
    await secrets.put("acme", "token", "First-Value-1")
    await secrets.put("acme", "token", "Second-Value-2")
    said = "First-Value-1 Second-Value-2 of-the-Operator"
    assert acme.redact_text(said) == "[redacted] [redacted] [redacted]"
    assert other.redact_text(said) == "First-Value-1 Second-Value-2 [redacted]"
    assert redactors.redact_line(said) == "[redacted] [redacted] [redacted]"
    await opened(database, tmp_path, fresh := Redactors())
    assert fresh.of("acme").redact_text(said) == "First-Value-1 [redacted] of-the-Operator"


async def test_nothing_of_a_value_is_in_the_files_and_a_row_that_was_moved_opens_for_nobody(
    database: Database, tmp_path: Path
) -> None:
    secrets = await opened(database, tmp_path)
    await secrets.put("acme", "token", CANARY)
    await secrets.put("other", "token", "Others-Own-1")
    assert not holding(CANARY, tmp_path)
    with stores.beside(tmp_path / "test.db") as thief:
        thief.change(
            "UPDATE secret SET sealed = (SELECT sealed FROM secret WHERE tenant = 'acme') WHERE tenant = 'other'"
        )
    again = await opened(database, tmp_path)
    assert again.find("other", "", "token") is None
    assert again.find("acme", "", "token") == CANARY
    assert [found.readable for found in await again.list("other")] == [False]
    rotated = await again.rotate()
    assert (rotated.sealed, rotated.left) == (1, 1)
    assert len((tmp_path / MASTER_KEY).read_text().split()) == 2, "the old key is kept as long as something needs it"


async def test_rotation_seals_everything_anew_and_the_old_key_is_gone(database: Database, tmp_path: Path) -> None:
    secrets = await opened(database, tmp_path)
    for tenant in ("acme", "other"):
        await secrets.put(tenant, "token", f"{CANARY}-{tenant}")
    old = (tmp_path / MASTER_KEY).read_text()
    done = await secrets.rotate()
    assert (done.sealed, done.left) == (2, 0)
    new = (tmp_path / MASTER_KEY).read_text()
    assert len(new.split()) == 1
    assert old.strip() not in new
    await secrets.put("acme", "another", CANARY)
    again = await opened(database, tmp_path)
    assert again.find("other", "", "token") == f"{CANARY}-other"
    assert again.find("acme", "", "another") == CANARY
    rows = await database.read(lambda tx: tx.rows("sealed_secrets"))
    assert {row[3] for row in rows} == {done.key}


async def test_whoever_gives_up_while_a_secret_is_stored_leaves_memory_and_disk_agreed(
    database: Database, tmp_path: Path
) -> None:
    secrets = await opened(database, tmp_path, redactors := Redactors())
    storing = asyncio.create_task(secrets.put("acme", "token", CANARY))
    await asyncio.sleep(0)  # it has begun
    storing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await storing
    await secrets.put("acme", "another", "stored-Afterwards")  # in the order of asking
    again = await opened(database, tmp_path)
    assert secrets.find("acme", "", "token") == again.find("acme", "", "token") == CANARY
    assert redactors.of("acme").redact_text(CANARY) == "[redacted]"


async def test_rotation_under_load_loses_nothing_and_fails_nobody(database: Database, tmp_path: Path) -> None:
    secrets = await opened(database, tmp_path)
    await secrets.put("acme", "token", CANARY)

    async def use(number: int) -> None:
        await secrets.put("acme", f"token_{number}", f"{CANARY}-{number}")
        assert secrets.find("acme", "", "token") == CANARY
        assert all(found.readable for found in await secrets.list("acme"))

    await asyncio.gather(*(use(number) for number in range(20)), *(secrets.rotate() for _ in range(3)))
    again = await opened(database, tmp_path)
    assert {again.find("acme", "", f"token_{number}") for number in range(20)} == {f"{CANARY}-{n}" for n in range(20)}
    assert len((tmp_path / MASTER_KEY).read_text().split()) == 1


async def test_a_rotation_that_was_cut_off_leaves_everything_readable(database: Database, tmp_path: Path) -> None:
    secrets = await opened(database, tmp_path)
    await secrets.put("acme", "token", CANARY)
    KeyFile(tmp_path / MASTER_KEY).begin()
    again = await opened(database, tmp_path)
    assert again.find("acme", "", "token") == CANARY
    assert (await again.rotate()).sealed == 1
    assert len((tmp_path / MASTER_KEY).read_text().split()) == 1


async def test_the_key_is_made_once_for_its_owner_alone_and_never_made_up_again(
    database: Database, tmp_path: Path
) -> None:
    secrets, file = await opened(database, tmp_path), tmp_path / MASTER_KEY
    assert file.stat().st_mode & 0o777 == 0o600
    await secrets.put("acme", "token", CANARY)
    text = file.read_text()
    file.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        await opened(database, tmp_path)
    file.unlink()
    with pytest.raises(SettingsError, match="put it back"):
        await opened(database, tmp_path)
    for wrong in ("", "x\n", text + "AAAA\n"):
        file.write_text(wrong)
        file.chmod(0o600)
        with pytest.raises(SettingsError, match="no master key"):
            await opened(database, tmp_path)


async def test_a_command_tells_the_keys_and_neither_they_nor_its_words_are_repeated(
    database: Database, tmp_path: Path
) -> None:
    old, new = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))
    told = tmp_path / "told"
    told.write_text(old)
    source = key_source(tmp_path, f"cat {told}")
    secrets = await open_secrets(database, source, Redactors(), StillClock())
    await secrets.put("acme", "token", CANARY)
    told.write_text(f"{new}\n{old}\n")
    rotated = [await secrets.rotate() for _ in range(2)]
    assert [(each.sealed, each.left, each.changed) for each in rotated] == [(1, 0, True), (0, 0, False)]
    told.write_text(new)
    again = await open_secrets(database, source, Redactors(), StillClock())
    assert again.find("acme", "", "token") == CANARY
    assert not (tmp_path / MASTER_KEY).exists()
    cry = f"{sys.executable} -c 'import sys; sys.exit(\"{CANARY}\")'"
    for broken in (cry, f"echo {CANARY}", "no-such-program-here", "echo '"):
        with pytest.raises(SettingsError) as refused:
            KeyCommand(broken).read(may_make=True)
        assert CANARY not in str(refused.value)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()), st.binary(), st.binary())
def test_what_is_sealed_opens_for_its_place_and_for_no_other(value: str, about: bytes, other: bytes) -> None:
    keys = MasterKeys((b"k" * 32,))
    key, sealed = keys.seal(value, about)
    assert keys.open(key, sealed, about) == value
    assert keys.seal(value, about)[1] != sealed
    moved = [(key, sealed, other)] if other != about else []
    for attempt in [*moved, (key, sealed[:-1], about), (key, b"", about), ("0" * 12, sealed, about)]:
        with pytest.raises(Unopened):
            keys.open(*attempt)
    assert "kkkk" not in repr(keys)


async def node(database: Database, folder: Path) -> Secrets:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    return await open_secrets(database, KeyFile(folder / MASTER_KEY), Redactors(), StillClock(), is_shared=True)


async def test_a_node_with_another_master_key_neither_starts_nor_stores_secrets(
    database: Database, tmp_path: Path
) -> None:
    one, other = await node(database, tmp_path / "a"), await node(database, tmp_path / "b")
    await one.put("acme", "openai_api_key", CANARY)
    await one.put("acme", "openai_api_key", f"{CANARY}-2")
    with pytest.raises(StorageGone, match="STELLWERK_MASTER_KEY_COMMAND, or copy master.key"):
        await other.put("acme", "other_key", CANARY)
    for late in ("b", "c"):
        with pytest.raises(SettingsError, match="sealed with a master key that this node has not"):
            await node(database, tmp_path / late)
    assert not (tmp_path / "c" / MASTER_KEY).exists()
    shutil.copy(tmp_path / "a" / MASTER_KEY, tmp_path / "c" / MASTER_KEY)
    assert (await node(database, tmp_path / "c")).find("acme", "", "openai_api_key") == f"{CANARY}-2"
