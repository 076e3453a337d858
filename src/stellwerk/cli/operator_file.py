"""The operator's file as the commands find it, and how they refuse."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from stellwerk.spec.operator import Operator


def chosen_config(config: Path | None, targets: Iterable[str], *, say: bool = True) -> Path | None:
    """The operator's file that was named, or the one beside the systems that were."""
    from stellwerk.agents.operator_file import operator_beside

    if config is not None:
        return config
    found = operator_beside(targets)
    if found is not None and say:
        typer.echo(f"stellwerk: using {found}, which lies beside it", err=True)
    return found


def operator_of(config: Path | None) -> "Operator":
    from stellwerk.agents.operator_file import read_operator

    return read_operator(config)


def refuse(reason: str) -> NoReturn:
    typer.echo(f"stellwerk: {reason}", err=True)
    raise typer.Exit(2)
