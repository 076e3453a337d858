"""Whether a process that we have started, or that was started below it, can still do anything."""

from pathlib import Path

_EXITING = 0x4
"""PF_EXITING: on its way out, not a line of its program is run any more."""


def lives(pid: int) -> bool:
    """One that has ended does not, though nobody has noticed its end yet; nor does one that is just ending."""
    try:
        state, *_, flags = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:7]
    except (FileNotFoundError, ProcessLookupError):  # gone when it was looked for, or while it was looked at
        return False
    return state != b"Z" and not int(flags) & _EXITING
