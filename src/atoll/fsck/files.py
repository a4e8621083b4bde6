"""Checks single files: those that a commit names by size and checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.errors import AtollError, NotFoundError
from atoll.pstate.store.changefile import ChangeFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.pstate.store.history import FileRef
    from atoll.storage.roots import RootStore


def check_change_file(store: RootStore, ref: FileRef, vnodes: Sequence[int] | None) -> str | None:
    """What is wrong with an incremental log or checkpoint; None when nothing is.

    Args:
        store: The root.
        ref: The file.
        vnodes: The vnodes that it must hold changes of; None when it may hold fewer.
    """
    try:
        found = ChangeFile(store.read(ref.name), ref).vnodes()
    except NotFoundError:
        return "a change file is missing"
    except AtollError as error:
        return error.message
    if vnodes is not None and sorted(set(vnodes)) != found:
        return f"it holds vnodes {found}, but its commit says {sorted(set(vnodes))}"
    return None


def check_rows_file(store: RootStore, ref: FileRef) -> str | None:
    """What is wrong with a file of rows to append; None when nothing is."""
    try:
        data = store.read(ref.name)
    except AtollError as error:
        return f"it cannot be read: {error.message}"
    fault = ref.fault(data)
    if fault is not None:
        return f"it {fault}"
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            rows = sum(reader.get_batch(at).num_rows for at in range(reader.num_record_batches))
    except pa.ArrowInvalid as error:
        return f"it cannot be read: {error}"
    return None if rows == ref.rows else f"it holds {rows} rows instead of {ref.rows}"
