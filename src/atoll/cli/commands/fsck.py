"""``atoll fsck``."""

from __future__ import annotations

from typing import Annotated

import typer

from atoll.cli.options import Output, OutputOption
from atoll.cli.output import note, print_json, print_table

_DAMAGED = 1


def fsck(
    root: Annotated[str, typer.Argument(help="The folder or URL that atoll run was started with.")],
    stores: Annotated[
        bool,
        typer.Option("--stores", help="Also compare the local vnode stores with the log (slower)."),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check every object, file and checksum of a root; say what each damage would cost.

    Reads only, also while the module runs. Exit code 1 when something needed is damaged.
    """
    from atoll.fsck.root import check_root

    report = check_root(root, stores=stores)
    if output is Output.JSON:
        print_json(report.as_dict())
    elif report.findings:
        print_table(
            ("severity", "file", "what", "cost"),
            [[each.severity, each.file, each.what, each.cost] for each in report.findings],
        )
    damages = len(list(report.damages()))
    verdict = "sound" if report.is_sound else f"{damages} damaged"
    note(
        f"{verdict}: {report.objects} objects, {report.files} files, {report.segments} depot "
        f"segments, {report.stores} local stores, {report.bytes / 1e6:.1f} MB read"
    )
    if not report.is_sound:
        raise typer.Exit(_DAMAGED)
