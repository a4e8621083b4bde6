"""What stands of a module: the version that was deployed last and ran, and what the root says.

A deployment that fails may have left a newer deployment object or cluster revision on the root.
Neither is taken away: the one before is made again, under the next number.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from atoll.cluster.deploy.versions import Version
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.microbatch.epochs import Epoch
from atoll.placement.info import ClusterInfo
from atoll.placement.registry import Registry, view, with_view
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
    revisions: Revisions,
    module: str,
    deployment: Deployment | None,
    info: ClusterInfo,
    *,
    epoch: Epoch,
    now_ms: int,
) -> None:
    """Make the root say again what stood, where it says something else.

    Args:
        revisions: Of the root's cluster.
        module: The module.
        deployment: What has to be deployed; None where nothing was: that is left as it is.
        info: What has to run where, as the module sees it; its revision may be one of the past.
        epoch: The life on whose behalf this is done.
        now_ms: The time.

    Raises:
        StorageError: When the disk refuses; it may be tried again.
        FencedError: When another life of the coordinator owns the module.
    """
    if deployment is not None:
        store = revisions.store
        latest = latest_deployment(store, module)
        if latest is None or _encoded(latest) != _encoded(deployment):
            epoch.check()
            save_deployment(store, deployment)
    latest_registry = revisions.latest()
    if module not in latest_registry.parts and info == view(latest_registry, module):
        return  # it never was placed

    def again(now: Registry) -> Registry:
        return with_view(now, module, info)

    if again(latest_registry) != latest_registry:
        epoch.check()
        revisions.change(
            again, lambda now: Revision(now, module, epoch.number, now_ms, "as before")
        )


def _encoded(deployment: Deployment) -> bytes:
    return msgspec.msgpack.encode(deployment)
