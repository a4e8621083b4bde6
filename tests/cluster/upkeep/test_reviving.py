"""Whatever stops is tried again until it runs: no moment at which a wish to try is lost."""

from __future__ import annotations

import threading

import pytest

from atoll.cluster.local import LocalCluster
from atoll.cluster.upkeep import reviving
from atoll.cluster.upkeep.reviving import Reviver


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch):
    monkeypatch.setattr(reviving, "_DELAY_SECONDS", 0.001)


class Tries:
    """A reviver that does at each try what a test says, and then has nothing left."""

    def __init__(self, *does):
        self.does = list(does)
        self.over = threading.Event()
        self.reviver = Reviver(self.once)

    def once(self):
        """The next of them."""
        if not self.does:
            self.over.set()
            return False
        return self.does.pop(0)(self.reviver)


def broken(_reviver):
    """As when a listener raises."""
    raise RuntimeError("a try broke")


def stopped_meanwhile(reviver):
    """A module stops when the try has looked at all others already."""
    reviver.begin()
    return False


@pytest.mark.parametrize("first", [broken, stopped_meanwhile, lambda _reviver: True])
def test_another_try_follows(first):
    """One that broke has revived nothing; what stopped during a try was not tried."""
    tries = Tries(first)
    tries.reviver.begin()
    assert tries.over.wait(10)
    tries.reviver.close()


def test_a_killed_cluster_starts_nothing_again(tmp_path):
    """As a process that died would not."""
    cluster = LocalCluster(tmp_path, engine="inline")
    cluster.kill()
    assert cluster._deploying.reviver.closed
