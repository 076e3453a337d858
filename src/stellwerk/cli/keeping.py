"""Commands that keep a data folder safe: backup and restore. They need no server, and do not mind one."""

from pathlib import Path
from typing import Annotated

import typer

from stellwerk.client.command_line import in_home

commands = typer.Typer()

Data = Annotated[Path, typer.Option(help="The data folder of the server.", callback=in_home)]


@commands.command()
def backup(
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="A folder that is empty, or not there yet.", callback=in_home),
    ],
    data: Data = Path("data"),
) -> None:
    """Copy a data folder, also while its server runs.

    Every session is complete up to a position, with every document that it names. Keep the copy as safe as the
    original: all that was said is in it.
    """
    from stellwerk.backups import tell_backup

    raise typer.Exit(tell_backup(data, target))


@commands.command()
def restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="What `stellwerk backup` has made.", callback=in_home)
    ],
    data: Data = Path("data"),
) -> None:
    """Put a backup into an empty data folder.

    Runs that were under way at the time of the backup go on, or end visibly, when the server starts.
    """
    from stellwerk.backups import tell_restored

    raise typer.Exit(tell_restored(source, data))
