"""Deletes what a deployment removed: depots, PStates, sinks and topologies that were named for it.

It happens after the deployment is made, and again with every later one: a process that is killed
in between leaves the rest to the next. Names stay taken, so nothing that comes later can be
mistaken for what was removed, wherever a piece of it is left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from atoll.engine.stores import state_folder
from atoll.names import RESERVED
from atoll.pstate.store.environment import shared_environments
from atoll.storage.folders import RootFolders
from atoll.storage.roots import RootStore, open_store


def delete_removed(folders: RootFolders, module: str, removed: Iterable[str]) -> None:
    """Delete the data of removed parts, as far as it is there.

    A PState's logs go with the commits that name them, as its topology tidies.

    Args:
        folders: Where everything lies.
        module: The module's name.
        removed: The parts, as ``kind:name``.
    """
    for part in removed:
        kind, _, name = part.partition(":")
        store = open_store(folders.root)
        for folder in _folders(store, module, kind, name):
            store.delete_all(folder)
        if kind == "pstate":
            _drop_stores(state_folder(folders.local, module) / name)


def delete_module(folders: RootFolders, module: str) -> None:
    """Delete all data of a module that does not run, as far as it is there.

    Args:
        folders: Where everything lies.
        module: The module's name.
    """
    _drop_stores(state_folder(folders.local, module))
    open_store(folders.root).delete_all(module)


def _drop_stores(folder: Path) -> None:
    """Delete a folder, and let go of the stores in it: files that are open keep their space."""
    shared_environments().close(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _folders(store: RootStore, module: str, kind: str, name: str) -> list[str]:
    """What of the root is the part's."""
    folder = f"{module}/{name}"
    if kind == "depot":
        return [f"{module}/depots/{name}"]
    if kind == "sink":
        return [f"{module}/{each}/sinks/{name}" for each in store.folders(module)]
    if kind != "topology":
        return []
    if name.casefold() not in RESERVED["topology"]:
        return [folder]
    # deployed before that name was reserved: Atoll's own objects are files beside it
    return [f"{folder}/{each}" for each in store.folders(folder)]
