"""Joins whose result changes: a module for each kind, and what plain Python makes of it."""

from __future__ import annotations

from collections import Counter

import atoll
from atoll import Map, Struct, start

LEFT = ("lp", "k", "v")
RIGHT = ("rp", "j", "w")
KINDS = ("inner", "left", "right", "full", "semi", "anti")


def columns(names):
    """Longs of these names."""
    return ", ".join(f"{name} long" for name in names)


def row_names(how):
    """The columns of a row of the result."""
    return LEFT if how in ("semi", "anti") else LEFT + RIGHT


def side(mb, depot, name, names, *, changes):
    """The rows of a depot, or the changes of a PState that it is written to."""
    rows = mb.source(depot, start_from=start.beginning())
    key, first, second = names
    if changes:
        there = mb.pstate(f"{name}_there", Map(int, Struct(**{first: int, second: int})))

        def keep(row, there):
            if row.gone:
                there.pop(row[key], None)
            else:
                there[row[key]] = {first: row[first], second: row[second]}

        rows.process(keep, key=key, states=[there])
        return there.changes(key)
    return rows.select(*names)


def module_of(how, *, changes=(False, False), unique=None, case=None, join=None, delay=None):
    """``left.k = right.j`` into the depot ``out``, as changes or as rows."""
    case = case or {}
    module = atoll.Module("joins")
    parts = case.get("partitions", 1)
    depots = [
        module.depot(
            name, f"{columns(names)}, gone boolean", partition_by=names[0], partitions=parts
        )
        for name, names in (("left", LEFT), ("right", RIGHT))
    ]
    options = {
        "depot.microbatch.max.records": case.get("limit", 1_000),
        "pstate.history.seconds": 0,
        "pstate.checkpoint.interval.commits": 2,
        "pstate.history.microbatches": 20,
    }
    mb = module.microbatch("mb", vnode_count=case.get("vnodes", 3), options=options)
    one, other = (
        side(mb, depot, depot.name, names, changes=each)
        for depot, names, each in zip(depots, (LEFT, RIGHT), changes, strict=True)
    )
    if delay is not None:
        one, other = one.with_watermark("v", delay), other.with_watermark("w", delay)
    row = ", ".join(f"{name}: long" for name in row_names(how))
    schema = f"k long, old struct<{row}>, new struct<{row}>"
    if how == "inner" and not any(changes):
        schema = columns(row_names(how))
    out = module.depot("out", schema, partitions=1)
    made = one.incremental_join(
        other, on="left.k = right.j", how=how, unique=unique, **(join or {})
    )
    made.append_to(out)
    return module


def changes_in(driver, depot="out"):
    """All records of a depot with one partition."""
    there = driver.depot(depot)
    end = there.end_offsets()[0]
    return there.read(0, 0, end).to_pylist() if end else []


def summed(records, names):
    """The rows that are there once all changes have been made; none ever goes that is not there."""
    found = Counter()
    for record in records:
        if "new" not in record:
            found[tuple(record[name] for name in names)] += 1
            continue
        old, new = record["old"], record["new"]
        assert old != new
        for each, times in ((old, -1), (new, 1)):
            if each is not None:
                key = each["k"] if each["k"] is not None else each.get("j")
                assert record["k"] == key
                found[tuple(each[name] for name in names)] += times
        assert all(count >= 0 for count in found.values())
    return +found


def rows_of(records, names, *, changes, unique=False):
    """The rows of a side: all, the first of each key, or what is left of them."""
    if changes:
        there = {}
        for record in records:
            if record["gone"]:
                there.pop(record[names[0]], None)
            else:
                there[record[names[0]]] = tuple(record[name] for name in names)
        return list(there.values())
    rows, seen = [], set()
    for record in records:
        key = record[names[1]]
        if unique and key is not None and key in seen:
            continue
        seen.add(key)
        rows.append(tuple(record[name] for name in names))
    return rows


def joined(left, right, how, meets=lambda one, other: True):
    """The rows of a join, by comparing all with all."""
    found = Counter()
    matched = set()
    none = (None,) * 3
    for one in left:
        partners = [
            (at, other)
            for at, other in enumerate(right)
            if one[1] is not None and one[1] == other[1] and meets(one, other)
        ]
        matched.update(at for at, _ in partners)
        match how:
            case "semi" | "anti":
                found[one] += bool(partners) == (how == "semi")
            case _:
                found.update(one + other for _, other in partners)
                if not partners and how in ("left", "full"):
                    found[one + none] += 1
    if how in ("right", "full"):
        found.update(none + other for at, other in enumerate(right) if at not in matched)
    return +found
