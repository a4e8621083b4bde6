"""The vnode stores of one actor, opened and closed together."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import lmdb
import pytest

from atoll.engine.program import JobSpec
from atoll.engine.stores import OpenStores
from atoll.errors import StorageError
from atoll.pstate.store.history import Rebuild


class _Program:
    """As much of a program as open stores ask for."""

    module = "m"

    def __init__(self, local):
        self.local = local
        self.pstates = defaultdict(
            lambda: SimpleNamespace(migrations=(), generation=0, track_size=False, ranks=None)
        )


class _Fresh:
    """The log of a topology that has committed nothing."""

    commit_id = 0
    timeline = 0
    horizon = 0

    def branch_since(self, timeline):
        """There is only one timeline."""

    def last_touched(self, pstate, vnode):
        """Never."""
        return 0

    def rebuild(self, pstate, vnode):
        """Nothing to build from."""
        return Rebuild()


def test_a_store_that_cannot_be_dropped_leaves_no_other_one_open(tmp_path, monkeypatch):
    """It is damaged, and the disk refuses to take it away: the next attempt must not wait."""
    spec = JobSpec(epoch=1, id=1, version=1, job=0, committed=0, splits=())
    refused = []

    def refuse(path):
        refused.append(path)
        raise StorageError("the disk refused")

    def fail():
        with OpenStores(_Program(tmp_path), spec, _Fresh(), "one") as opened:
            opened.open_all({"p": {0, 1, 2}})
            monkeypatch.setattr(opened.stores.environments, "discard", refuse)
            raise lmdb.CorruptedError("what stands at a page is no page")

    with pytest.raises(StorageError):
        fail()
    assert len(refused) == 3
    monkeypatch.undo()
    with OpenStores(_Program(tmp_path), spec, _Fresh(), "two") as opened:
        opened.stores.patience.seconds = 0.0
        opened.open_all({"p": {0, 1, 2}})
        assert opened.opened == {"current": 3}
