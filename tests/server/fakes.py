"""A small deployed module for the service's tests: real record checking, canned state."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

import pyarrow as pa
from memory_store import MemoryStore

from atoll.cluster.options import ModuleOptions
from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Refusals
from atoll.ddl import parse_ddl
from atoll.depot.receipt import Receipt
from atoll.errors import NotFoundError, PathError, RecordsRefusedError, UsageError, WaitTimeoutError
from atoll.microbatch.control.tuning import SettingsLog
from atoll.placement.info import ClusterInfo
from atoll.schema import Map, as_node


@dataclass
class FakeDepot:
    """Keeps batches in memory; one call is kept as a whole or not at all."""

    name: str
    ddl: str
    batches: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    producers: list = field(default_factory=list)

    def __post_init__(self):
        """Derive what a depot has."""
        schema = parse_ddl(self.ddl)
        self.codec = RecordCodec(schema)
        self.spec = SimpleNamespace(name=self.name, schema=schema, partitions=1)

    @property
    def rows(self):
        """Everything kept."""
        return [row for batch in self.batches for row in self.codec.to_rows(batch)]

    def codec_for(self, _producer):
        """As the real one without migrations."""
        return self.codec

    def append_stream(self, batches, on_invalid="none", *, producer=None):
        """As the real one: reads all, then keeps or refuses."""
        self.calls.append(threading.current_thread().name)
        self.producers.append(producer)
        refusals, kept = Refusals(), []
        for checked in batches:
            refusals.extend(checked.refusals, checked.refused_count)
            kept.append(checked.batch)
        start = self.end_offsets()[0]
        count = sum(batch.num_rows for batch in kept)
        if refusals.count and on_invalid == "none":
            listed = [{"line": each.line, "reason": each.reason} for each in refusals.kept[:20]]
            raise RecordsRefusedError(
                f"{refusals.count} records do not fit the schema of depot {self.name!r}",
                hint="mend them, or keep the good ones",
                refused=refusals.count,
                refusals=listed,
                appended=0,
            )
        self.batches += kept
        offsets = {0: (start, start + count)}
        return Receipt(self.name, count, offsets, refusals.kept, refusals.count, module="shop")

    def start_offsets(self):
        """Nothing is ever dropped."""
        return (0,)

    def end_offsets(self):
        """One depot partition."""
        return (sum(batch.num_rows for batch in self.batches),)


_SEVENTH = SimpleNamespace(timeline=0, commit_id=7)


class FakePState:
    """Answers every path with its canned values."""

    def __init__(self, node, values):
        self.spec = SimpleNamespace(node=as_node(node), topology="mb", vnode_count=16)
        self.values = values
        self.paths = []
        self.earlier = {}

    def history(self):
        """Nothing ever commits."""
        return _SEVENTH

    def as_of(self, microbatch):
        """The canned reader of an earlier microbatch."""
        if microbatch not in self.earlier:
            raise UsageError("cannot be read", hint=f"it can be read as of {[*self.earlier]}")
        return self.earlier[microbatch]

    def select(self, path):
        """Note the path; the canned values, or their error."""
        self.paths.append(path)
        if isinstance(self.values, Exception):
            raise self.values
        return self.values

    def select_one(self, path):
        """The only canned value."""
        values = self.select(path)
        if len(values) != 1:
            raise PathError(f"the path leads to {len(values)} values", hint="use select")
        return values[0]


class FakeTopology:
    """Remembers whether it is paused."""

    def __init__(self):
        self.state = "running"

    def pause(self):
        """Stop."""
        self.state = "paused"

    def resume(self):
        """Go on."""
        self.state = "running"

    def rollback(self, to_microbatch, *, keep_appended=False):
        """Note it; the first three microbatches are too long ago."""
        if to_microbatch < 3:
            raise UsageError("cannot go back", hint="possible are 3 to 7")
        self.rolled_back = (to_microbatch, keep_appended)
        self.state = "paused"

    def checkpoint(self):
        """The commit after the last one."""
        self.checkpointed = 8
        return self.checkpointed

    def status(self):
        """As documented for topologies."""
        return {
            "id": 7,
            "committed": 7,
            "version": 1,
            "step": "process",
            "state": self.state,
            "processed": 1_234,
            "lag": {"numbers": [5, 0]},
            "opened_total": {"current": 40, "behind": 2},
            "logs_applied_total": 9,
            "actor_runs_total": {"same": 38, "other": 2},
            "durations_ms": {"prime": 1.5, "process": 90.0, "total": 92.0},
            "step_seconds": {
                "process": {"count": 3, "seconds": 0.09, "upto": {"0.05": 2, "+Inf": 3}}
            },
            "operators_total": [
                {
                    "step": "map (a.py:1)",
                    "rows": 9,
                    "out": 8,
                    "dropped": 0,
                    "rejected": 1,
                    "ms": 2.0,
                }
            ],
            "units_total": [{"unit": 3, "rows": 8, "ms": 4.0}],
            "skew": {"rows": 1.5},
            "records_per_second": 12.5,
            "error": None,
        }


class FakeQueries:
    """One query that answers with what it is asked."""

    def names(self):
        """Names."""
        return ["echo"]

    def describe(self, name):
        """As documented."""
        return {"name": name, "parameters": {}, "returns": {"column": None, "rows": "one"}}

    def ask(self, name, arguments, timeout_seconds=10, *, outside=False):
        """The arguments."""
        if name != "echo":
            raise NotFoundError(f"no query {name!r}")
        return {**arguments, "within": timeout_seconds}


class FakeSubscription:
    """Tells a snapshot and a change, and is closed then."""

    def __init__(self, pstate, path, after):
        self.pstate, self.path, self.after = pstate, path, after
        self.closed, self.position = False, "7"
        self._told = iter(["snapshot", "change"] if after is None else ["change"])

    def next(self, timeout_seconds=None):
        """One after the other."""
        kind = next(self._told, None)
        if kind is None:
            self.closed = True
            return None
        data = {"kind": kind, "path": str(self.path), "after": self.after}
        return SimpleNamespace(kind=kind, last=True, position="7", as_dict=lambda: data)

    def close(self):
        """End."""
        self.closed = True


class FakeApp:
    """A module with two depots, a few PStates and a topology."""

    def __init__(self, name="key-pairs"):
        self.name = name
        self.failure = None
        self._depots = {
            "numbers": FakeDepot("numbers", "v long NOT NULL"),
            "pairs": FakeDepot("pairs", "k string NOT NULL, k2 string, at timestamp"),
        }
        self._pstates = {
            "global_sum": FakePState(int, [11]),
            "pair_counts": FakePState(Map(str, Map(str, int)), [{"a": {"b": 1}}]),
        }
        self._topologies = {"mb": FakeTopology()}
        self.cluster = SimpleNamespace(info=lambda: ClusterInfo(revision=3))
        self.options = ModuleOptions(
            SettingsLog(MemoryStore(), name),
            SimpleNamespace(number=1, check=lambda: None),
            declared={"mb": {"topology.microbatch.retry.max.attempts": 5}},
            topologies={"mb": SimpleNamespace(set_options=lambda options: None)},
            depots=self._depots,
            pstates=self._pstates,
            now_ms=lambda: 0,
        )

        self.queries = FakeQueries()
        self.sources = SimpleNamespace(status=dict)

    def subscribe(self, pstate, path=None, *, after=None, page_entries=1000, timeout_seconds=60):
        """Two canned changes, then the end."""
        return FakeSubscription(self.pstate(pstate), path, after)

    def wait_committed(self, depot, ends=None, *, timeout_seconds=60.0):
        """Note it; a wait of less than a second is over too early."""
        self.waited = (depot, ends, timeout_seconds)
        self.depot(depot)
        if timeout_seconds < 1:
            raise WaitTimeoutError("not reached", hint="look")
        return {"mb": 7}

    def wait_fresh(self, pstate, *, timeout_seconds=60.0):
        """The same."""
        self.waited = (pstate, timeout_seconds)
        if timeout_seconds < 1:
            raise WaitTimeoutError("not reached", hint="look")
        return 7

    def depots(self):
        """Names."""
        return list(self._depots)

    def pstates(self):
        """Names."""
        return list(self._pstates)

    def topologies(self):
        """Names."""
        return list(self._topologies)

    def depot(self, name):
        """By name."""
        return self._find("depot", self._depots, name)

    def pstate(self, name):
        """By name."""
        return self._find("PState", self._pstates, name)

    def topology(self, name):
        """By name."""
        return self._find("topology", self._topologies, name)

    def status(self):
        """As documented for modules."""
        return {
            "topologies": {name: each.status() for name, each in self._topologies.items()},
            "depots": {
                name: {
                    "start_offsets": list(each.start_offsets()),
                    "end_offsets": list(each.end_offsets()),
                }
                for name, each in self._depots.items()
            },
        }

    @staticmethod
    def _find(kind, found, name):
        if name not in found:
            raise NotFoundError(f"no {kind} {name!r}", hint=f"there is: {', '.join(found)}")
        return found[name]


def arrow_stream(*batches: pa.RecordBatch) -> bytes:
    """The batches as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
