"""Random topologies of Python steps and state steps, and what plain Python makes of them.

A topology is drawn as plain data (nodes, each with the numbers of its inputs), built as a module
from that, and folded by a second reading of the same data that knows nothing of Atoll. All results
are such that they cannot depend on cuts, vnodes, depot partitions, actors or retries.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from hypothesis import strategies as st

import atoll
from atoll import Map, agg, start

KN = "k string, n long"
KEYS = "abcdefg"


@dataclass(frozen=True)
class Node:
    """One step: its kind, its inputs' indexes, and its numbers."""

    kind: str
    inputs: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    ordered: bool = True
    """Whether rows of one key still come in append order."""
    joined: bool = False
    """Whether there is a join above; one of joined rows would have too many."""


@dataclass(frozen=True)
class Case:
    """A topology, the records, and everything that must not show."""

    nodes: tuple[Node, ...]
    ends: tuple[tuple[str, int], ...]
    records: tuple[tuple[int, str, int], ...]
    cuts: tuple[int, ...]
    vnodes: int
    partitions: int
    parallelism: int
    limit: int
    failures: tuple[int, ...] = field(default=())


@st.composite
def cases(draw, most_records=60):
    """Any of them."""
    depots = draw(st.integers(1, 2))
    nodes = [Node("source", numbers=(index,)) for index in range(depots)]
    for _ in range(draw(st.integers(0, 6))):
        nodes.append(draw(_step(nodes)))
    read = {each for node in nodes for each in node.inputs}
    leaves = [index for index in range(len(nodes)) if index not in read]
    more = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=2))
    ends = []
    for index in dict.fromkeys(leaves + more):
        kinds = ["count", "sum", "max", "total", "nested", "delta"]
        kinds += ["last"] * nodes[index].ordered
        ends += [(kind, index) for kind in draw(st.sets(st.sampled_from(kinds), min_size=1))]
    record = st.tuples(st.integers(0, depots - 1), st.sampled_from(KEYS), st.integers(-50, 50))
    records = draw(st.lists(record, max_size=most_records))
    cuts = draw(st.lists(st.integers(0, len(records)), max_size=4))
    return Case(
        tuple(nodes),
        tuple(sorted(ends)),
        tuple(records),
        tuple(sorted(cuts)),
        vnodes=draw(st.sampled_from([1, 3, 16])),
        partitions=draw(st.integers(1, 4)),
        parallelism=draw(st.integers(1, 3)),
        limit=draw(st.sampled_from([1, 3, 1_000])),
        failures=tuple(draw(st.lists(st.integers(0, 5), max_size=2))),
    )


@st.composite
def _step(draw, nodes):
    kinds = ["map", "repeat", "keep", "rekey", "union", "running", "join", "join"]
    kind = draw(st.sampled_from(kinds))
    one = draw(st.integers(0, len(nodes) - 1))
    ordered, joined = nodes[one].ordered, nodes[one].joined
    match kind:
        case "map":
            numbers = (draw(st.integers(-3, 3)), draw(st.integers(-9, 9)))
            return Node(kind, (one,), numbers, ordered, joined)
        case "repeat":
            return Node(kind, (one,), (draw(st.integers(0, 2)),), ordered, joined)
        case "keep":
            return Node(kind, (one,), (draw(st.integers(2, 4)),), ordered, joined)
        case "rekey":
            return Node(kind, (one,), (draw(st.integers(1, 5)),), ordered=False, joined=joined)
        case "running" if ordered:
            return Node(kind, (one,), ordered=False, joined=joined)
    two = draw(st.integers(0, len(nodes) - 1))
    joined = joined or nodes[two].joined
    if kind == "join" and not joined:  # which row is the first needs their order
        unique = nodes[two].ordered and draw(st.integers(0, 3)) > 0
        return Node(kind, (one, two), (int(unique),), ordered=False, joined=True)
    return Node("union", (one, two), ordered=False, joined=joined)


# As a module ------------------------------------------------------------------------------------


def build(case, name="random"):
    """The topology as a user would write it."""
    module = atoll.Module(name)
    depots = [
        module.depot(f"depot{index}", KN, partition_by="k", partitions=case.partitions)
        for index in range(sum(node.kind == "source" for node in case.nodes))
    ]
    options = {"depot.microbatch.max.records": case.limit}
    mb = module.microbatch("mb", vnode_count=case.vnodes, options=options)
    streams = []
    for index, node in enumerate(case.nodes):
        inputs = [streams[each] for each in node.inputs]
        before = [each.kind for each in case.nodes[:index]]
        step_name = f"{node.kind}_{index}" if node.kind != "join" or "join" in before else None
        streams.append(_stream(mb, depots, step_name, node, inputs))
    for kind, index in case.ends:
        _end(mb, streams[index], kind, f"{kind}_{index}")
    return module


def _stream(mb, depots, name, node, inputs):
    match node.kind:
        case "source":
            return mb.source(depots[node.numbers[0]], start_from=start.beginning())
        case "map":
            a, b = node.numbers
            return inputs[0].map(lambda row: {"k": row.k, "n": row.n * a + b}, emits=KN)
        case "repeat":
            times = node.numbers[0]
            return inputs[0].flat_map(
                lambda row: [{"k": row.k, "n": row.n + extra} for extra in range(times)], emits=KN
            )
        case "keep":
            every = node.numbers[0]
            return inputs[0].flat_map(lambda row: [row] if row.n % every else [], emits=KN)
        case "rekey":
            count = node.numbers[0]
            return inputs[0].map(lambda row: {"k": f"r{row.n % count}", "n": row.n}, emits=KN)
        case "running":
            totals = mb.pstate(name, Map(str, int))
            return inputs[0].process(_running, key="k", states=[totals], emits=KN)
        case "join":
            unique = "right" if node.numbers[0] else None
            right = inputs[1].map(lambda row: {"k": row.k, "m": row.n}, emits="k string, m long")
            # of two joins of the same streams nothing but a name tells the state apart
            pairs = inputs[0].incremental_join(right, on="k", unique=unique, name=name)
            return pairs.map(lambda row: {"k": row.k, "n": row.n * 3 + row.m}, emits=KN)
    return inputs[0].union(inputs[1])


def _running(row, totals):
    totals[row.k] = totals.get(row.k, 0) + row.n
    yield {"k": row.k, "n": totals[row.k] % 1_000}


def _end(mb, stream, kind, name):
    match kind:
        case "total":
            stream.aggregate(mb.pstate(name, int, initial=0), agg.sum("n"))
            return
        case "nested":
            stream.aggregate(mb.pstate(name, Map(str, Map(int, int)))["k"]["n"], agg.count())
            return
        case "delta":
            sums = mb.pstate(f"under_{name}", Map(str, int))
            deltas = stream.aggregate(sums["k"], agg.sum("n")).changes()
            grown = deltas.map(lambda row: {"k": row.k, "n": row.new - (row.old or 0)}, emits=KN)
            grown.aggregate(mb.pstate(name, Map(str, int))["k"], agg.sum("n"))
            return
    aggregator = agg.count() if kind == "count" else getattr(agg, kind)("n")
    stream.aggregate(mb.pstate(name, Map(str, int))["k"], aggregator)


# As plain Python ----------------------------------------------------------------------------------


def expected(case):
    """What each PState of an end must hold."""
    rows = []
    for node in case.nodes:
        rows.append(_rows(node, [rows[each] for each in node.inputs], case.records))
    return {f"{kind}_{index}": _folded(kind, rows[index]) for kind, index in case.ends}


def _rows(node, inputs, records):
    match node.kind:
        case "source":
            return [(k, n) for depot, k, n in records if depot == node.numbers[0]]
        case "map":
            return [(k, n * node.numbers[0] + node.numbers[1]) for k, n in inputs[0]]
        case "repeat":
            return [(k, n + extra) for k, n in inputs[0] for extra in range(node.numbers[0])]
        case "keep":
            return [(k, n) for k, n in inputs[0] if n % node.numbers[0] != 0]
        case "rekey":
            return [(f"r{n % node.numbers[0]}", n) for _, n in inputs[0]]
        case "running":
            totals = Counter()
            found = []
            for k, n in inputs[0]:
                totals[k] += n
                found.append((k, totals[k] % 1_000))
            return found
        case "join":
            rights = inputs[1]
            if node.numbers[0]:
                first = dict(reversed(rights))
                rights = list(first.items())
            return [(k, n * 3 + m) for k, n in inputs[0] for key, m in rights if key == k]
    return inputs[0] + inputs[1]


def _folded(kind, rows):
    groups = defaultdict(list)
    for k, n in rows:
        groups[k].append(n)
    match kind:
        case "total":
            return sum(n for _, n in rows)
        case "nested":
            return {k: dict(sorted(Counter(groups[k]).items())) for k in sorted(groups)}
        case "delta":  # an entry that does not change in value is no change: a sum of 0 may be new
            return {k: sum(ns) for k, ns in sorted(groups.items()) if sum(ns)}
    fold = {"count": len, "sum": sum, "max": max, "last": lambda ns: ns[-1]}[kind]
    return {k: fold(groups[k]) for k in sorted(groups)}


def comparable(kind_and_name, value):
    """A PState as read, as :func:`expected` has it."""
    if kind_and_name.startswith("delta"):
        return {k: n for k, n in (value or {}).items() if n}
    return value


def feed(case):
    """For each stretch between two cuts the records by depot, in order."""
    edges = [0, *case.cuts, len(case.records)]
    for low, high in itertools.pairwise(edges):
        stretch = defaultdict(list)
        for depot, k, n in case.records[low:high]:
            stretch[f"depot{depot}"].append({"k": k, "n": n})
        yield stretch
