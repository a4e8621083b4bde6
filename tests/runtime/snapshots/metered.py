"""A runtime whose statistics are of a batch mode, and what its calculator says."""

from __future__ import annotations

from waiting import until


def meter(state, copies=1, **more):
    """Statistics with these state functions."""
    return {
        "name": "meter",
        "type": "stats",
        "params": {"field": "v"},
        "log": {"incoming": True},
        "copies": copies,
        "state": state,
        **more,
    }


def by_count(count, mode="log-batch"):
    """A batch mode by event count, without calc-local."""
    return {"calc-local": False, mode: {"update": {"event-count": count}}}


def definition(state, copies=1, instances=1, **more):
    """An entry point and the statistics behind it."""
    return {
        "name": "r",
        "actors": [{"name": "in", "type": "httpbroadcast"}, meter(state, instances, **more)],
        "links": [{"from": "in", "to": "meter"}],
        "distribution": {"copies": copies},
    }


class Watched:
    """A runtime and what its calculator says."""

    def __init__(self, runtimes, runtime):
        self.runtimes = runtimes
        self.runtime = runtime

    @property
    def running(self):
        """As it runs now."""
        return self.runtimes.running(self.runtime)

    def send(self, values, copy=None):
        """Events, processed when this returns."""
        self.running.send("in", [{"v": value} for value in values], copy)
        self.running.wait_all()

    def calculator(self):
        """What the batch state calculator shows of the meter."""
        return self.runtimes.snapshots(self.runtime)["actors"]["meter"]

    def offered(self, number):
        """Wait until that snapshot was offered; what the calculator shows then."""
        return until(lambda: (c := self.calculator())["last"]["number"] >= number and c)

    def states(self):
        """The state and the snapshot of every instance."""
        from atoll.runtime.service.showing import actor_stats

        shown = actor_stats(self.running, "meter")["instances"]
        return [(each["snapshot"], each["state"]) for each in shown]
