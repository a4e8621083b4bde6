"""Another process that serves the same root: reads the last commits itself, has others write.

Who runs the runtimes says where it is served, in a numbered object (``meta/runtime-owners``): the
newest one is whom requests that change anything are passed on to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from atoll.errors import AtollError, StoppedError
from atoll.runtime.service.known import Known
from atoll.runtime.service.registry import Registered, Registry
from atoll.runtime.service.running import SeenRuntime
from atoll.runtime.snapshots.worker import snapshots_shown
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError
from atoll.storage.places import Place
from atoll.storage.roots import open_store
from atoll.views.connect import Connected, connect

if TYPE_CHECKING:
    from atoll.cluster.app import App


OWNERS = "meta/runtime-owners"


class _Owner(msgspec.Struct, frozen=True):
    url: str


def announce(root: Place, url: str) -> None:
    """Say where the runtimes of a root are served from now on."""
    objects = NumberedObjects(open_store(root), OWNERS)
    while True:
        number = (objects.latest() or 0) + 1
        try:
            objects.create(number, msgspec.json.encode(_Owner(url)))
        except ObjectExistsError:
            continue
        objects.delete_below(number)
        return


def owner_url(root: Place) -> str:
    """Where the runtimes of a root are served.

    Raises:
        StoppedError: When nobody has ever served them.
    """
    objects = NumberedObjects(open_store(root), OWNERS)
    latest = objects.latest()
    if latest is None:
        raise StoppedError(
            "nobody runs the runtimes of this root", hint="start atoll run without --follow"
        )
    return msgspec.json.decode(objects.read(latest), type=_Owner).url


class FollowedRuntimes(Known):
    """The runtimes of a root that another process runs.

    Args:
        root: The folder of everything that lasts.
    """

    def __init__(self, root: Place) -> None:
        """Nothing is read."""
        super().__init__(Registry(open_store(root)))
        self.root = root
        self._connected: dict[tuple[str, int], Connected] = {}

    def owner(self) -> str:
        """Where requests that change anything go.

        Raises:
            StoppedError: When nobody has ever served the runtimes.
        """
        return owner_url(self.root)

    def seen(self, runtime: Registered) -> SeenRuntime:
        """A runtime as its commits on the root show it."""
        key = (runtime.module, runtime.revision)
        if key not in self._connected:
            self._connected[key] = connect(self.root, runtime.module)
        return SeenRuntime(runtime, self.program(runtime), self._connected[key].pstate)

    def snapshots(self, runtime: Registered) -> dict[str, Any]:
        """The batch state calculator of a runtime; calculations that run are the owner's."""
        return snapshots_shown(self.seen(runtime), None)

    def effects(self, runtime: Registered) -> dict[str, Any] | None:
        """Nothing: effects are performed, and told, by the owner."""
        del runtime
        return None

    def failure(self, runtime: Registered) -> AtollError | None:
        """Nothing: whether it runs is the owner's to say."""
        del runtime
        return None

    def apps(self) -> dict[str, App]:
        """No module runs here."""
        return {}
