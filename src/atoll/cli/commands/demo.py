"""``atoll demo``."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(help="How long to run.", min=1.0)] = 60.0,
    rate: Annotated[
        int, typer.Option(help="Events to generate per second; 0 for as many as go.", min=0)
    ] = 20_000,
    seed: Annotated[int, typer.Option(help="The stream is the same for the same seed.")] = 1,
    parallelism: Annotated[
        int, typer.Option(help="How many cores Spark uses.", min=1, max=1024)
    ] = 2,
) -> None:
    """Run the main job on an auction stream, live in the terminal; then check the totals."""
    from atoll.cli.logs import configure_logs
    from atoll.cli.signals import stopping
    from atoll.demo.run import DemoSettings, run_demo
    from atoll.spark.jvm.shutdown import ending_spark

    configure_logs()
    settings = DemoSettings(seconds=seconds, rate=rate, seed=seed, parallelism=parallelism)
    with ending_spark(), stopping() as stop:
        good = run_demo(settings, stop.event, on_started=stop.listen)
    if not good:
        raise typer.Exit(1)
