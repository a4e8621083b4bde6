"""The ``atoll`` command: its subcommands, and how it ends.

Each command is a file under ``commands/`` and imports what is heavy when it runs, so that
``atoll --help`` answers at once.

====  ==============================================================================
exit  meaning
====  ==============================================================================
0     done
1     an error; its message, place, remedy and code are on stderr
2     a command line that does not parse; or an append of which nothing was kept
3     an append of which the good records were kept and others refused; or a run that
      ended because another process took its module over
4     done, but the output could not be written: stdout is full
5     done, but what was waited for did not happen in the time given
130   interrupted
====  ==============================================================================
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from atoll.cli.asked import with_contexts
from atoll.cli.commands import context, demo, deploy, fsck, run, runtime, serve, status, version
from atoll.cli.commands.access import audit, token
from atoll.cli.commands.data import append, ask, export, query, tail, watch
from atoll.cli.commands.topology import checkpoint, microbatch, options, pause, resume, rollback
from atoll.cli.commands.workers import cluster, scale, worker
from atoll.cli.output import OutputClosedError, OutputError, guarded_output, print_error
from atoll.errors import AtollError

__all__ = ["app", "main"]

_OUTPUT_LOST = 4

app = typer.Typer(
    name="atoll",
    help="Stateful event processing for Python on Apache Spark.",
    epilog="Data goes to stdout, messages go to stderr. ATOLL_URL names the service to talk to.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in (
    run,
    serve,
    append,
    query,
    export,
    watch,
    tail,
    ask,
    status,
    microbatch,
    deploy,
    pause,
    resume,
    checkpoint,
    rollback,
    options,
    cluster,
    scale,
    audit,
    fsck,
    demo,
    version,
):
    app.command()(getattr(_command, _command.__name__.rpartition(".")[2]))
app.add_typer(worker.app, name="worker")
app.add_typer(runtime.app, name="runtime")
app.add_typer(token.app, name="token")
app.add_typer(context.app, name="context")
with_contexts(app)


def _tell_version(wanted: bool) -> None:
    if wanted:
        version.version()
        raise typer.Exit


@app.callback()
def _first(
    *,
    version_wanted: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version, and end.", is_eager=True, callback=_tell_version
        ),
    ] = False,
) -> None:
    """Stateful event processing for Python on Apache Spark."""
    del version_wanted


def main() -> None:
    """Run the command line and leave with its exit code; no error shows a traceback."""
    try:
        with guarded_output():
            app()
    except OutputClosedError:
        sys.exit(0)
    except OutputError as error:
        print_error(error)
        sys.exit(_OUTPUT_LOST)
    except AtollError as error:
        print_error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
