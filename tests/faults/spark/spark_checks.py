"""What must hold on a root after any fault: the invariants, against a plain fold of the depot."""

from __future__ import annotations

from collections import Counter

import spark_scenario as scenario

from atoll.microbatch.commits.history import commit_objects, plan_objects
from atoll.microbatch.commits.objects import decode_commit, decode_plan
from atoll.storage.local import LocalStore


class CommitBook:
    """All commits that a root ever had, collected while it lives, because old ones are dropped."""

    def __init__(self, root):
        self.root = root
        self.commits = {}
        self.plans = {}

    def collect(self):
        """Read what is there now; what was read before must not have changed."""
        if not self.root.exists():
            return
        store = LocalStore(self.root)
        for known, objects in (
            (self.commits, commit_objects(store, scenario.MODULE, scenario.TOPOLOGY)),
            (self.plans, plan_objects(store, scenario.MODULE, scenario.TOPOLOGY)),
        ):
            for number in objects.numbers():
                try:
                    data = objects.read(number)
                except FileNotFoundError:
                    continue  # dropped meanwhile
                assert known.setdefault(number, data) == data, f"object {number} changed"

    def epochs(self):
        """The lives that committed, by id."""
        return [decode_commit(self.commits[number]).epoch for number in sorted(self.commits)]

    def check(self):
        """Ids without a gap, each range where the last ended, the plan kept; how many there are."""
        commits = [decode_commit(self.commits[number]) for number in sorted(self.commits)]
        assert [each.id for each in commits] == list(range(1, len(commits) + 1))
        ends = [0] * scenario.PARTITIONS
        tokens = Counter()
        for each in commits:
            ranges = each.ranges[scenario.DEPOT]
            assert [start for start, _ in ranges] == ends, f"commit {each.id}"
            ends = [end for _, end in ranges]
            if each.id in self.plans:
                plan = decode_plan(self.plans[each.id])
                assert [tuple(pair) for pair in plan.ranges[scenario.DEPOT]] == [
                    tuple(pair) for pair in ranges
                ], f"plan {each.id}"
            tokens.update(each.tokens)
        assert self.epochs() == sorted(self.epochs()), "an earlier life committed later"
        assert not [token for token, count in tokens.items() if token and count > 1]
        return len(commits), ends


PRODUCER = 1_000_000
"""Processes that append at the same time have numbers that differ by this."""


def check_appends(stored, books):
    """Acknowledged: there once, in order. Tried: at most once. Nothing else. How many stand."""
    tried, acknowledged = set(), set()
    for line in "".join(book.read_text() for book in books).splitlines():
        kind, first, last = line.split()
        numbers = range(int(first), int(last) + 1)
        (acknowledged if kind == "ack" else tried).update(numbers)
    for partition in stored:
        producers = {record["id"] // PRODUCER for record in partition}
        for producer in producers:
            ids = [r["id"] for r in partition if r["id"] // PRODUCER == producer]
            assert ids == sorted(set(ids)), "doubled or out of order"
        for record in partition:
            assert record == scenario.record_of(record["id"]), "torn"
    every = [record["id"] for partition in stored for record in partition]
    assert len(every) == len(set(every))
    assert acknowledged <= set(every), f"lost {sorted(acknowledged - set(every))[:5]}"
    assert set(every) <= tried
    return len(every)


def check_reader(root, before):
    """A reader sees whole microbatches only, and never an older one: money is conserved."""
    state = scenario.shown(root)
    counted = sum(state["seen"].values())
    assert sum(state["funds"].values()) == 0, "half a microbatch is visible"
    assert counted >= before, "an older state than before"
    return counted


def check_all(root, commits):
    """Every invariant on a root where nothing runs and everything was processed."""
    commits.collect()
    count, ends = commits.check()
    stored = scenario.stored(root)
    records = check_appends(stored, sorted(root.parent.glob("*acks.log")))
    assert ends == [len(partition) for partition in stored], "not everything was processed"
    state = scenario.shown(root)
    expected = scenario.fold(record for partition in stored for record in partition)
    assert state == expected
    return {"commits": count, "records": records, "hash": scenario.fingerprint(state)}
