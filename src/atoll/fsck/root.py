"""Checks a whole root folder: every module, depot and topology in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from atoll.depot.segments.verify import verify_depot
from atoll.errors import AtollError, NotFoundError
from atoll.fsck.depot_ends import check_depot_ends
from atoll.fsck.findings import Report
from atoll.fsck.parcels import check_parcels, check_sinks
from atoll.fsck.stores import check_stores
from atoll.fsck.topology import check_topology
from atoll.storage.folders import RootFolders, check_identity, depot_folder
from atoll.storage.numbered import NumberedObjects
from atoll.storage.places import Place, place_of
from atoll.storage.roots import RootStore, open_store
from atoll.views.deployment import Deployment, latest_deployment


def check_root(root: Place | str, *, stores: bool = False) -> Report:
    """Read everything below a root and report what is damaged or left over.

    Nothing is changed. The root may be in use: what is dropped meanwhile is not missed.

    Args:
        root: The folder, or the URL, that clusters are started on.
        stores: Also compare the local vnode stores below it with the log, which rebuilds each.

    Raises:
        NotFoundError: When no module was ever deployed there.
    """
    store = open_store(place_of(root))
    modules = [name for name in store.folders("") if "deployments" in store.folders(name)]
    if not modules:
        raise NotFoundError(
            "no module is kept in this root",
            hint="give the root that atoll run was started with",
            root=str(root),
        )
    report = Report()
    _check_identity(store, report)
    cost = "which runtimes there are is not known, so none is brought back"
    _check_sequence(store, "meta/runtimes", cost, report)
    cost = "who follows the root does not know whom to pass changes of runtimes on to"
    _check_sequence(store, "meta/runtime-owners", cost, report)
    for served in store.folders("meta/addresses"):
        name = f"meta/addresses/{served}"
        _check_sequence(store, name, "doors do not find who runs a module", report)
    _check_cluster(store, report)
    for module in modules:
        _check_module(store, module, report, stores=stores)
    for name in store.unfinished():
        report.leftover(name, "an unfinished file of a dead process")
    return report


def _check_cluster(store: RootStore, report: Report) -> None:
    """What the processes of a root agreed on about workers and placement."""
    _check_sequence(store, "meta/cluster", "what runs where is not known", report)
    _check_sequence(store, "meta/cluster-begin", "what ran where before is not known", report)
    _check_sequence(store, "meta/trials", "a change over processes may be refused", report)
    for kind in ("rests", "trial-answers"):
        for folder in store.folders(f"meta/{kind}"):
            name, cost = f"meta/{kind}/{folder}", "a change over processes may be refused"
            _check_sequence(store, name, cost, report, gaps=True)


def _check_identity(store: RootStore, report: Report) -> None:
    try:
        check_identity(store)
        report.objects += 1
    except NotFoundError:
        return  # one host uses the root
    except AtollError as error:
        cost = "each host builds its local stores again, in another folder"
        report.damage(str(error.context.get("file")), error.message, cost)


def _check_module(store: RootStore, module: str, report: Report, *, stores: bool) -> None:
    _check_sequence(store, f"{module}/epochs", "who owned the module is not known", report)
    _check_sequence(store, f"{module}/deployments", "an older declaration is lost", report)
    _check_sequence(store, f"{module}/cluster", "what ran where is not known", report)
    _check_sequence(store, f"{module}/options", "the options set are not known", report)
    cost = "how far a runtime's effects are is not known, so they do not go on"
    _check_sequence(store, f"{module}/effects", cost, report)
    for depot in store.folders(f"{module}/depots"):
        folder = f"{module}/depots/{depot}"
        for damage in verify_depot(depot_folder(store.root, module, depot)):
            file = damage.file
            if isinstance(store.root, Path) and Path(file).is_absolute():
                file = Path(file).relative_to(store.root / folder).as_posix()
            where = f"{folder}/{file} at byte {damage.position}"
            report.damage(where, damage.what, damage.cost)
        check_parcels(store, module, depot, report)
        _check_sources(store, folder, report)
        sizes = store.sizes(f"{folder}/segments")
        report.bytes += sum(sizes.values())
        report.segments += len(sizes)
    deployment = _deployment(store, module, report)
    for topology in [] if deployment is None else _topologies(store, deployment):
        check_topology(store, module, topology, report)
        check_depot_ends(store, module, topology, report)
        _check_sinks(store, module, topology, report)
        cost = "whether the topology was paused is not known, so the module does not start"
        _check_sequence(store, f"{module}/{topology}/pauses", cost, report)
        if stores:
            check_stores(store, RootFolders.of(store).local, module, topology, report)


def _check_sources(store: RootStore, depot: str, report: Report) -> None:
    """How far the sources of a depot were read."""
    costs = {
        "plans": "how far the source was read is not known, so it reads no more",
        "positions": "how far the source was read is not known, so it reads no more",
        "pauses": "whether the source was paused is not known, so the module does not start",
    }
    for source in store.folders(f"{depot}/sources"):
        for kind, cost in costs.items():
            _check_sequence(store, f"{depot}/sources/{source}/{kind}", cost, report, gaps=True)


def _check_sinks(store: RootStore, module: str, topology: str, report: Report) -> None:
    folder = f"{module}/{topology}/sinks"
    for sink in store.folders(folder):
        cost = f"sink {sink} is not known to its target any more"
        _check_sequence(store, f"{folder}/{sink}/identity", cost, report)
        cost = f"how far sink {sink} was written is not known, so it does not go on"
        _check_sequence(store, f"{folder}/{sink}/taken", cost, report)
    check_sinks(store, module, topology, report)


def _topologies(store: RootStore, deployment: Deployment) -> list[str]:
    """Those that are deployed, and those that fill new PStates of them."""
    filling = [each.filling.name for each in deployment.topologies.values() if each.filling]
    there = store.folders(deployment.module) if filling else []
    filling = [name for name in filling if name in there]
    return [*deployment.topologies, *filling]


def _deployment(store: RootStore, module: str, report: Report) -> Deployment | None:
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
    store: RootStore, prefix: str, cost: str, report: Report, *, gaps: bool = False
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
