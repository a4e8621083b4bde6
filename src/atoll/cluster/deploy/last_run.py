"""What stands of a module: the version that was deployed last and ran, and what the root says.

A deployment that fails may have left a newer deployment object or cluster revision on the root.
Neither is taken away: the one before is made again, under the next number.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from atoll.cluster.deploy.versions import Version
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.errors import FencedError
from atoll.microbatch.epochs import Epoch
from atoll.placement.info import ClusterInfo
from atoll.storage.local import LocalStore
from atoll.views.deployment import Deployment, latest_deployment, save_deployment


@dataclass(frozen=True)
class LastRun:
    """A version that has run, and with what.

    Attributes:
        version: The version, to be started again.
        deployment: What the root has to say is deployed.
        info: What runs where.
        epoch: The life that runs it, or did last.
    """

    version: Version
    deployment: Deployment
    info: ClusterInfo
    epoch: int


def reinstate(
    store: LocalStore,
    module: str,
    deployment: Deployment | None,
    info: ClusterInfo,
    *,
    epoch: Epoch,
    now_ms: int,
) -> None:
    """Make the root say again what stood, where it says something else.

    Args:
        store: The root.
        module: The module.
        deployment: What has to be deployed; None where nothing was: that is left as it is.
        info: What has to run where; its revision may be one of the past.
        epoch: The life on whose behalf this is done.
        now_ms: The time.

    Raises:
        StorageError: When the disk refuses; it may be tried again.
        FencedError: When another life of the coordinator owns the module.
    """
    if deployment is not None:
        latest = latest_deployment(store, module)
        if latest is None or _encoded(latest) != _encoded(deployment):
            epoch.check()
            save_deployment(store, deployment)
    revisions = Revisions(store, module)
    last = revisions.latest()
    if last is not None and _what_runs(last.info) != _what_runs(info):
        again = _after(last.info, info)
        epoch.check()
        if not revisions.create(Revision(again, epoch.number, now_ms, "as before")):
            raise FencedError(
                f"another process made revision {again.revision} of the cluster",
                hint="this module now runs there; stop this process",
            )


def _what_runs(info: ClusterInfo) -> tuple[object, ...]:
    return info.workers, info.fragments, info.policies


def _after(last: ClusterInfo, info: ClusterInfo) -> ClusterInfo:
    """The info as the next revision; ids that were given meanwhile are not given again."""
    return msgspec.structs.replace(
        info,
        revision=last.revision + 1,
        next_worker=max(last.next_worker, info.next_worker),
        next_unit=max(last.next_unit, info.next_unit),
        next_fragment=max(last.next_fragment, info.next_fragment),
    )


def _encoded(deployment: Deployment) -> bytes:
    return msgspec.msgpack.encode(deployment)
