"""Checks a whole root folder: every module, depot and topology in it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from atoll.depot.segments.verify import verify_depot
from atoll.errors import AtollError, NotFoundError
from atoll.fsck.depot_ends import check_depot_ends
from atoll.fsck.findings import Report
from atoll.fsck.parcels import check_parcels, check_sinks
from atoll.fsck.stores import check_stores
from atoll.fsck.topology import check_topology
from atoll.storage.folders import RootFolders, check_identity
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects
from atoll.views.deployment import Deployment, latest_deployment

_TEMPORARY = ".tmp-*"


def check_root(root: Path | str, *, stores: bool = False) -> Report:
    """Read everything below a root and report what is damaged or left over.

    Nothing is changed. The root may be in use: what is dropped meanwhile is not missed.

    Args:
        root: The folder that clusters are started on.
        stores: Also compare the local vnode stores below it with the log, which rebuilds each.

    Raises:
        NotFoundError: When no module was ever deployed there.
    """
    root = Path(root)
    store = LocalStore(root)
    modules = sorted(path.parent.name for path in root.glob("*/deployments") if path.is_dir())
    if not modules:
        raise NotFoundError(
            "no module is kept in this folder",
            hint="give the folder that atoll run was started with",
            folder=str(root),
        )
    report = Report()
    _check_identity(store, report)
    cost = "which runtimes there are is not known, so none is brought back"
    _check_sequence(store, "meta/runtimes", cost, report)
    cost = "who follows the root does not know whom to pass changes of runtimes on to"
    _check_sequence(store, "meta/runtime-owners", cost, report)
    for folder in sorted((store.root / "meta" / "addresses").glob("*")):
        name = f"meta/addresses/{folder.name}"
        _check_sequence(store, name, "doors do not find who runs a module", report)
    _check_cluster(store, report)
    for module in modules:
        _check_module(store, module, report, stores=stores)
    for path in sorted(root.rglob(_TEMPORARY)):
        report.leftover(path.relative_to(root).as_posix(), "an unfinished file of a dead process")
    return report


def _check_cluster(store: LocalStore, report: Report) -> None:
    """What the processes of a root agreed on about workers and placement."""
    _check_sequence(store, "meta/cluster", "what runs where is not known", report)
    _check_sequence(store, "meta/cluster-begin", "what ran where before is not known", report)
    _check_sequence(store, "meta/trials", "a change over processes may be refused", report)
    for kind in ("rests", "trial-answers"):
        for folder in sorted((store.root / "meta" / kind).glob("*")):
            name, cost = f"meta/{kind}/{folder.name}", "a change over processes may be refused"
            _check_sequence(store, name, cost, report, gaps=True)


def _check_identity(store: LocalStore, report: Report) -> None:
    try:
        check_identity(store)
        report.objects += 1
    except NotFoundError:
        return  # one host uses the root
    except AtollError as error:
        cost = "each host builds its local stores again, in another folder"
        report.damage(str(error.context.get("file")), error.message, cost)


def _check_module(store: LocalStore, module: str, report: Report, *, stores: bool) -> None:
    _check_sequence(store, f"{module}/epochs", "who owned the module is not known", report)
    _check_sequence(store, f"{module}/deployments", "an older declaration is lost", report)
    _check_sequence(store, f"{module}/cluster", "what ran where is not known", report)
    _check_sequence(store, f"{module}/options", "the options set are not known", report)
    cost = "how far a runtime's effects are is not known, so they do not go on"
    _check_sequence(store, f"{module}/effects", cost, report)
    for folder in sorted((store.root / module / "depots").glob("*")):
        for damage in verify_depot(folder):
            name = Path(damage.file)
            shown = name.relative_to(store.root) if name.is_absolute() else name
            report.damage(f"{shown.as_posix()} at byte {damage.position}", damage.what, damage.cost)
        check_parcels(store, module, folder.name, report)
        _check_sources(store, folder, report)
        for segment in folder.glob("segments/*.seg"):
            with contextlib.suppress(FileNotFoundError):  # dropped meanwhile
                report.bytes += segment.stat().st_size
                report.segments += 1
    deployment = _deployment(store, module, report)
    for topology in [] if deployment is None else _topologies(store, deployment):
        check_topology(store, module, topology, report)
        check_depot_ends(store, module, topology, report)
        _check_sinks(store, module, topology, report)
        cost = "whether the topology was paused is not known, so the module does not start"
        _check_sequence(store, f"{module}/{topology}/pauses", cost, report)
        if stores:
            check_stores(store, RootFolders.of(store).local, module, topology, report)


def _check_sources(store: LocalStore, depot: Path, report: Report) -> None:
    """How far the sources of a depot were read."""
    costs = {
        "plans": "how far the source was read is not known, so it reads no more",
        "positions": "how far the source was read is not known, so it reads no more",
        "pauses": "whether the source was paused is not known, so the module does not start",
    }
    for folder in sorted(depot.glob("sources/*")):
        for kind, cost in costs.items():
            name = f"{folder.relative_to(store.root).as_posix()}/{kind}"
            _check_sequence(store, name, cost, report, gaps=True)


def _check_sinks(store: LocalStore, module: str, topology: str, report: Report) -> None:
    folder = f"{module}/{topology}/sinks"
    for sink in sorted(path.name for path in store.path(folder).glob("*")):
        cost = f"sink {sink} is not known to its target any more"
        _check_sequence(store, f"{folder}/{sink}/identity", cost, report)
        cost = f"how far sink {sink} was written is not known, so it does not go on"
        _check_sequence(store, f"{folder}/{sink}/taken", cost, report)
    check_sinks(store, module, topology, report)


def _topologies(store: LocalStore, deployment: Deployment) -> list[str]:
    """Those that are deployed, and those that fill new PStates of them."""
    filling = [each.filling.name for each in deployment.topologies.values() if each.filling]
    there = [name for name in filling if store.path(f"{deployment.module}/{name}").is_dir()]
    return [*deployment.topologies, *there]


def _deployment(store: LocalStore, module: str, report: Report) -> Deployment | None:
    try:
        return latest_deployment(store, module)
    except (AtollError, msgspec.MsgspecError) as error:
        report.damage(
            f"{module}/deployments",
            f"the newest deployment cannot be read: {error}",
            "the module cannot be started, nor its topologies be checked: restore it",
        )
        return None


def _check_sequence(
    store: LocalStore, prefix: str, cost: str, report: Report, *, gaps: bool = False
) -> None:
    """Read every object of a sequence; its numbers may begin anywhere and must have no gap.

    With ``gaps`` they may have some.

    Objects are dropped from the lowest on, and the list of them may be of different moments: so a
    gap is one as long as what lies before it is there.
    """
    objects = NumberedObjects(store, prefix)
    numbers = objects.numbers()
    for before, number in zip([None, *numbers], numbers, strict=False):
        missing = before is not None and number != before + 1 and not gaps
        if before is not None and missing and objects.exists(before):
            report.damage(objects.name(before + 1), "an object is missing", cost)
        try:
            objects.read(number)
            report.objects += 1
        except NotFoundError:
            continue  # dropped meanwhile
        except AtollError as error:
            report.damage(objects.name(number), error.message, cost)
