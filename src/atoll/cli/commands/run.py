"""``atoll run``."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll.cli.options import (
    DEFAULT_PORT,
    DEFAULT_URL,
    AllowHostOption,
    AnnounceOption,
    EngineChoice,
    HostOption,
    PortOption,
)
from atoll.cli.output import OutputClosedError, OutputError, note
from atoll.cli.protecting import (
    BehindProxyOption,
    OidcOption,
    SocketOption,
    TlsCertOption,
    TlsClientCaOption,
    TlsKeyOption,
    TokensOption,
    listening,
    protect,
)
from atoll.cli.requests import say_paused
from atoll.errors import NotFoundError, UsageError
from atoll.storage.places import LOCAL_VARIABLE, Place

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from atoll.cluster.app import App
    from atoll.cluster.cluster import Cluster
    from atoll.cluster.deploy.redeployer import Redeployer
    from atoll.cluster.deploy.stopped import StoppedModule
    from atoll.errors import FencedError
    from atoll.module import Module
    from atoll.runtime.service.following import FollowedRuntimes
    from atoll.runtime.service.runtimes import Runtimes
    from atoll.server.serve import ServingAddress


_FENCED = 3
"""The exit code of a run whose module another process took over."""


def run(
    target: Annotated[
        str | None,
        typer.Argument(
            help="FILE.py:NAME or PACKAGE.MODULE:NAME of the module; without one only the "
            "runtimes of ROOT run.",
            show_default=False,
        ),
    ] = None,
    root: Annotated[
        str,
        typer.Option(
            help="Folder of depots, commits and state, kept between runs; or s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX, az://CONTAINER/PREFIX."
        ),
    ] = ".atoll",
    local: Annotated[
        Path | None,
        typer.Option(
            help="Folder of this host's caches of a root that is in an object store or shared by "
            "hosts; as the variable ATOLL_LOCAL.",
            show_default=False,
        ),
    ] = None,
    host: HostOption = "127.0.0.1",
    allow_host: AllowHostOption = None,
    port: PortOption = DEFAULT_PORT,
    parallelism: Annotated[
        int, typer.Option(help="How many cores Spark uses on this machine.", min=1, max=1024)
    ] = 2,
    units: Annotated[
        int | None,
        typer.Option(
            help="How many parallel units each worker has; as many as its cores without.",
            min=1,
            max=1024,
            show_default=False,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            help="Master of a Spark cluster to run on, such as spark://HOST:7077; every worker "
            "must reach ROOT, a folder at the same path.",
            show_default=False,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of Spark on that cluster, NAME=VALUE; may be given again.",
            show_default=False,
        ),
    ] = None,
    uncordon: Annotated[
        bool,
        typer.Option("--uncordon", help="Let all workers get actors again before it starts."),
    ] = False,
    engine: Annotated[
        EngineChoice,
        typer.Option(
            help="What runs microbatches on this machine: spark; inline, this process alone, for "
            "modules without Spark's steps; or auto, inline where it can be."
        ),
    ] = EngineChoice.SPARK,
    outside: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of what runtimes may do outside: hosts to ask, databases, a folder "
            "for files; nothing but files below ROOT without it.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Show the runtimes that another process runs on ROOT, and pass changes on to it.",
        ),
    ] = False,
    announce_url: AnnounceOption = None,
    tokens: TokensOption = None,
    behind_proxy: BehindProxyOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
    socket: SocketOption = None,
    oidc: OidcOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every event.")] = False,
) -> None:
    """Deploy a module, run its topologies and serve its depots and PStates over HTTP.

    The runtimes of the root run and are served too. Goes on where the last run's last commit
    ended. Ctrl-C or SIGTERM stops it cleanly. When another process takes the module over, it ends
    by itself with exit code 3.
    """
    from atoll.cli.logs import configure_logs
    from atoll.cli.signals import stopping, telling
    from atoll.cli.target import load_module
    from atoll.server.doors.announcing import announced_host, announcing
    from atoll.server.serve import address_of, bind

    configure_logs(verbose=verbose)
    if local is not None:
        os.environ[LOCAL_VARIABLE] = str(local.expanduser().resolve())
    protection = protect(host, root, tokens, behind_proxy, tls_cert, tls_key, tls_client_ca, oidc)
    announced = announced_host(announce_url)
    module = None if target is None else load_module(target)
    with bind(host, port) as listener, listening(socket) as unix, stopping() as stop:
        settings = _settings(conf or [], master)
        if follow and module is None:  # nothing runs here
            _refuse_master(master)
            engine = EngineChoice.INLINE
        cluster = _cluster(root, parallelism, units, master, settings, engine)
        from atoll.runtime.service.following import announce
        from atoll.runtime.service.runtimes import Runtimes
        from atoll.server import ServerSettings, create_app, serve
        from atoll.spark.jvm.shutdown import ending_spark

        with ending_spark(), telling(stop, _running(cluster)), cluster:
            cluster.on_change(_ending(stop.event))
            url = announce_url or address_of(listener, protection.tls).url
            cluster.on_change(announcing(cluster.root, url))
            if uncordon and module is not None:
                _uncordon(cluster, module.name)
            apps = [] if module is None else [cluster.deploy(module)]
            runtimes = _runtimes(cluster, outside, follow=follow)
            names = (f"[{host}]" if ":" in host else host, *(allow_host or ()), *announced)
            service = create_app(
                *apps,
                settings=ServerSettings(hosts=names, proxies=protection.proxies),
                deployers={app.name: _redeployer(cluster, app, target or "") for app in apps},
                runtimes=runtimes,
                cluster=cluster.whole,
                authority=protection.authority,
                audit_root=cluster.root,
            )
            with serve(service, listener, note, tls=protection.tls, unix=unix) as address:
                stop.listen()
                if isinstance(runtimes, Runtimes):
                    announce(cluster.root, address.url)
                if not stop.event.is_set():
                    _greet(module, runtimes, cluster.root, address)
                    for app in apps:
                        say_paused(app.name, app.status(), address.url)
                stop.event.wait()
                fenced = _fenced(cluster)
            if isinstance(runtimes, Runtimes):
                runtimes.close()
    if fenced is not None:
        note(f"stopped: {fenced.message}")
        raise typer.Exit(_FENCED)
    note("stopped")


def _runtimes(
    cluster: Cluster, outside: Path | None, *, follow: bool
) -> Runtimes | FollowedRuntimes:
    """The runtimes of the root: run here, or by another process."""
    from atoll.runtime.service.effects.outside import read_outside
    from atoll.runtime.service.following import FollowedRuntimes
    from atoll.runtime.service.runtimes import Runtimes

    if follow:
        return FollowedRuntimes(cluster.root)
    found = Runtimes(cluster, outside=read_outside(outside) if outside else None)
    found.open()
    return found


def _redeployer(cluster: Cluster, app: App, target: str) -> Redeployer:
    """Deploys it again from the target that it was started with."""
    from atoll.cli.target import load_module
    from atoll.cluster.deploy.redeployer import Redeployer

    return Redeployer(cluster, app.name, target, partial(load_module, target, again=True))


def _fenced(cluster: Cluster) -> FencedError | None:
    """Who took a module over, if anybody did."""
    running = [each.fenced for each in cluster.apps.values()]
    stopped = [each.fenced for each in cluster.stopped.values()]
    return next((each for each in (*running, *stopped) if each is not None), None)


def _running(cluster: Cluster) -> Callable[[], str]:
    """Says which microbatches run, since a stop waits for them."""

    def said() -> str:
        found = [
            f"microbatch {status['id']} of {name}/{topology}"
            for name, app in list(cluster.apps.items())
            for topology, status in app.status()["topologies"].items()
            if status["step"] != "idle"
        ]
        return ", ".join(found)

    return said


def _ending(event: threading.Event) -> Callable[[App | StoppedModule], None]:
    """Lets a run end when the module is taken over, whichever version of it runs then."""
    return lambda module: module.on_fenced(lambda _reason: event.set())


def _uncordon(cluster: Cluster, module: str) -> None:
    """While nothing runs, nobody can be asked to uncordon a worker."""
    try:
        workers = cluster.workers(module)
    except NotFoundError:  # it was never deployed here, so nobody has cordoned anything
        return
    cordoned = [each.id for each in workers.info().workers if each.cordoned]
    if cordoned:
        workers.uncordon(cordoned)
        note(f"uncordoned workers {', '.join(map(str, cordoned))}")


def _refuse_master(master: str | None) -> None:
    if master is not None:
        raise UsageError(
            "a process that only follows runs nothing on a cluster",
            hint="leave --master out, or name the module to run",
        )


def _cluster(
    root: str,
    parallelism: int,
    units: int | None,
    master: str | None,
    settings: dict[str, str],
    engine: EngineChoice,
) -> Cluster:
    """On this machine, or on the cluster of a master."""
    if master is None:
        from atoll.cluster.local import LocalCluster

        if engine is EngineChoice.SPARK:
            note(f"starting Spark with {parallelism} cores ...")
        return LocalCluster(root, parallelism=parallelism, engine=engine.value, units=units)
    if engine is not EngineChoice.SPARK:
        raise UsageError(
            f"the cluster of a master runs on spark, not {engine.value}", hint="leave --engine out"
        )
    from atoll.cluster.spark import SparkCluster

    note(f"starting Spark on {master} ...")
    return SparkCluster(root, master, settings=settings, units_per_worker=units)


def _settings(given: list[str], master: str | None) -> dict[str, str]:
    """The settings of Spark by name."""
    if given and master is None:
        raise UsageError("--conf is for a cluster", hint="name its master: --master spark://...")
    settings = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.startswith("spark."):
            raise UsageError(
                f"--conf {each!r} is no setting", hint="write --conf spark.executor.memory=4g"
            )
        settings[name] = value
    return settings


def _greet(
    module: Module | None,
    runtimes: Runtimes | FollowedRuntimes,
    root: Place,
    address: ServingAddress,
) -> None:
    """Say where it is and what can be done; the address alone goes to stdout, for scripts."""
    url = address.url
    note(f"{'the service' if module is None else module.name} runs at {url}, kept in {root}")
    where = "" if url == DEFAULT_URL else f" --url {url}"
    for depot in list(module.depots if module is not None else ())[:1]:
        note(f"  atoll append {module.name if module else ''} {depot} --file FILE.jsonl{where}")
    for pstate in list(module.pstates() if module is not None else ())[:1]:
        note(f"  atoll query {module.name if module else ''} {pstate}{where}")
    present = list(runtimes)
    for each in present:
        failure = runtimes.failure(each)
        said = each.status if failure is None else f"not here: {failure.message}"
        note(f"  runtime {each.unique_name}: {said}")
    if module is None and not present:
        note(f"  atoll runtime create DEFINITION.json{where}")
    note(f"  atoll status{where}")
    note("Ctrl-C stops it; the next run goes on where this one ends")
    try:
        sys.stdout.write(url + "\n")
        sys.stdout.flush()
    except (OutputError, OutputClosedError):
        note("the address could not be written to stdout; the service runs all the same")
