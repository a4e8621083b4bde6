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
from atoll.storage.folders import RootFolders, depot_folder


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
        for folder in _folders(folders, module, kind, name):
            _delete(folder)


def delete_module(folders: RootFolders, module: str) -> None:
    """Delete all data of a module that does not run, as far as it is there.

    Args:
        folders: Where everything lies.
        module: The module's name.
    """
    for folder in (folders.root / module, state_folder(folders.local, module)):
        _delete(folder)


def _delete(folder: Path) -> None:
    """Delete a folder, and let go of the stores in it: files that are open keep their space."""
    shared_environments().close(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _folders(folders: RootFolders, module: str, kind: str, name: str) -> list[Path]:
    match kind:
        case "depot":
            return [depot_folder(folders.root, module, name)]
        case "topology":
            folder = folders.root / module / name
            if name.casefold() not in RESERVED["topology"]:
                return [folder]
            # deployed before that name was reserved: Atoll's own objects are files beside it
            return [each for each in folder.glob("*") if each.is_dir()]
        case "pstate":
            return [state_folder(folders.local, module) / name]
        case "sink":
            return list((folders.root / module).glob(f"*/sinks/{name}"))
    return []
