"""Rows lost, doubled and misrouted on purpose: no such attempt commits, and the next one is right.

Each defect is planted into the real code by substitution, for one attempt. It must fail with
``E-ACCOUNTS``; the attempt after it must leave the state, the depots and the dead letters that a
microbatch without defects leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import atoll
from atoll import Map, agg
from atoll.depot.depot import Depot
from atoll.engine import actor, attempt, inline
from atoll.engine.exchange import blobs as exchange
from atoll.engine.exchange import feeding as chain
from atoll.engine.exchange import reading
from atoll.engine.exchange.packing import KeyedPacker, unpack
from atoll.engine.exchange.rejects import RejectPacker
from atoll.engine.exchange.waybills import WAYBILLS, Packers
from atoll.engine.inline import InlineExecutor
from atoll.engine.program import Program
from atoll.errors import AccountsError
from atoll.microbatch.outcome import Outcome
from atoll.steps.append_to.run import AppendPacker
from atoll.steps.materialize.run import SpreadPacker
from atoll.steps.process import run as process_run
from atoll.testing import TopologyTestDriver

DDL = "k string, v long"
ROWS = [{"k": f"k{n % 7}", "v": n - 3} for n in range(60)]
BAD = [row for row in ROWS if row["v"] == 5]
KEYS = sorted({row["k"] for row in ROWS})
COUNT = sum(1 for row in ROWS if row["v"] >= 0 and row not in BAD)


def _checked(row: Any) -> Any:
    if row.v == BAD[0]["v"]:
        raise ValueError("bad")
    return row.asdict()


def _seen(row: Any, seen: Any) -> Any:
    seen[row.k] = seen.get(row.k, 0) + 1
    yield row.asdict()


def declare() -> atoll.Module:
    """Two jobs: reads, Python steps, rejects, process, staged rows, materialize, append_to."""
    module = atoll.Module("books")
    rows = module.depot("rows", DDL, partition_by="k", partitions=2)
    out = module.depot("out", DDL)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=8, dead_letter=rejected)
    sums, seen = mb.pstate("sums", Map(str, int)), mb.pstate("seen", Map(str, int))
    later = mb.pstate("later", Map(str, int))
    good = mb.source(rows).where(lambda row: row.v >= 0).map(_checked, emits=DDL)
    good.aggregate(sums["k"], agg.sum("v"))
    good.append_to(out)
    emitted = good.process(_seen, key="k", states=[seen], emits=DDL)
    emitted.aggregate(later["k"], agg.sum("v"))
    good.materialize().map(_checked, emits=DDL).aggregate(later["k"], agg.sum("v"))
    return module


class Once:
    """A wrong version of a function for one attempt; the right one before and after it.

    Args:
        armed: Whether it is ``on``, and how often the wrong one was ``used``.
        known: The right one.
        wrong: Called with it and its arguments.
    """

    def __init__(self, armed: dict[str, Any], known: Any, wrong: Any) -> None:
        self.armed, self.known, self.wrong = armed, known, wrong

    def __get__(self, instance: Any, _owner: Any = None) -> Any:
        """As a method."""
        return self if instance is None else lambda *a, **k: self(instance, *a, **k)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The wrong one while it is armed."""
        if not self.armed["on"]:
            return self.known(*arguments, **keywords)
        self.armed["used"] += 1
        return self.wrong(self.known, *arguments, **keywords)


# Blobs between packers and actors -----------------------------------------------------------------


def _blobs(change: Callable[[dict[int, list[Any]]], None]) -> Any:
    """What the reading tasks packed, changed on its way."""

    def packed(known: Any, *arguments: Any) -> Any:
        blobs = known(*arguments)
        change(blobs)
        return blobs

    return inline, "_packed", packed


def _at(blobs: dict[int, list[Any]], unit: int = 0, *, waybill: bool = False) -> int:
    """Where the first blob of rows, or the first waybill, of a unit is."""
    return next(n for n, b in enumerate(blobs[unit]) if (b[0] == WAYBILLS) == waybill)


def _lose(blobs: dict[int, list[Any]]) -> None:
    del blobs[0][_at(blobs)]


def _double(blobs: dict[int, list[Any]]) -> None:
    blobs[1].append(blobs[1][_at(blobs, 1)])


def _misdeliver(blobs: dict[int, list[Any]]) -> None:
    blobs[1].append(blobs[0].pop(_at(blobs)))


def _exchange_units(blobs: dict[int, list[Any]]) -> None:
    blobs[0], blobs[1] = blobs[1], blobs[0]


def _exchange_rows(blobs: dict[int, list[Any]]) -> None:
    one, other = _at(blobs), _at(blobs, 1)
    mine, theirs = blobs[0][one], blobs[1][other]
    blobs[0][one], blobs[1][other] = (*mine[:2], theirs[2]), (*theirs[:2], mine[2])


def _lose_waybill(blobs: dict[int, list[Any]]) -> None:
    del blobs[0][_at(blobs, waybill=True)]


def _lose_task(blobs: dict[int, list[Any]]) -> None:
    for unit, mine in blobs.items():
        blobs[unit] = [blob for blob in mine if blob[1] != 1]


def _double_task(blobs: dict[int, list[Any]]) -> None:
    for mine in blobs.values():
        mine += [blob for blob in mine if blob[1] == 1]


def _lose_all(blobs: dict[int, list[Any]]) -> None:
    blobs.clear()


def _other_step(blobs: dict[int, list[Any]]) -> None:
    at = _at(blobs)
    tag, sequence, rows = blobs[0][at]
    blobs[0][at] = (tag + 1, sequence, rows)


def _repacked(change: Callable[[pa.Table], pa.Table]) -> Callable[[dict[int, list[Any]]], None]:
    def repack(blobs: dict[int, list[Any]]) -> None:
        at = _at(blobs)
        tag, sequence, rows = blobs[0][at]
        table = change(unpack(rows))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        blobs[0][at] = (tag, sequence, sink.getvalue())

    return repack


class Stale:
    """Keeps what the first microbatch packed, and gives it to the second one."""

    def __init__(self, *, waybills: bool) -> None:
        self.waybills = waybills

    def __call__(self, blobs: dict[int, list[Any]]) -> None:
        """Replace rows, or rows and waybills."""
        for unit, mine in blobs.items():
            fresh = [b for b in mine if b[0] == WAYBILLS and not self.waybills]
            stale = [b for b in self.kept[unit] if self.waybills or b[0] != WAYBILLS]
            blobs[unit] = stale + fresh

    kept: ClassVar[dict[int, list[Any]]] = {}


def _park(known: Any, program: Program, job: Any, spec: Any, *more: Any) -> Any:
    """Two parked blobs, the file of one replaced by that of the other."""
    blobs = known(program, job, spec, *more)
    parked = []
    for unit in (0, 1):
        at = _at(blobs, unit)
        tag, sequence, rows = blobs[unit][at]
        parked.append(exchange.park(program, spec.id, rows))
        blobs[unit][at] = (tag, sequence, parked[-1])
    Path(parked[0]).write_bytes(Path(parked[1]).read_bytes())
    return blobs


# Others -------------------------------------------------------------------------------------------


def _without_last(known: Any, *arguments: Any) -> Any:
    return list(known(*arguments))[:-1]


def _doubled(known: Any, *arguments: Any) -> Any:
    made = list(known(*arguments))
    return [*made, made[-1]]


def _skip(known: Any, *arguments: Any, **keywords: Any) -> None:
    """Do nothing at all."""


def _twice(known: Any, *arguments: Any, **keywords: Any) -> Any:
    known(*arguments, **keywords)
    return known(*arguments, **keywords)


def _fewer(known: Any, packer: Any, batch: Any) -> None:
    known(packer, batch.slice(1))


def _forget_last(known: Any, packer: Any, *arguments: Any) -> Any:
    if packer.batches:
        packer.batches.pop()
    return known(packer, *arguments)


def _rolled(known: Any, packer: KeyedPacker, *arguments: Any) -> Any:
    owners, packer.owners = packer.owners, packer.owners[::-1].copy()
    yield from known(packer, *arguments)
    packer.owners = owners


def _one_blob(known: Any, packer: Any, *arguments: Any) -> Any:
    return list(known(packer, *arguments))[:1]


def _row_less(known: Any, *arguments: Any) -> Any:
    return known(*arguments).slice(1)


def _rows_less(known: Any, *arguments: Any, **keywords: Any) -> Any:
    for number, batch in enumerate(known(*arguments, **keywords)):
        yield batch.slice(0 if number else 1)


def _first_share(known: Any, blocks: Any, tasks: int, *arguments: Any) -> Any:
    shares = known(blocks, tasks, *arguments)
    return (shares[0], *(() for _ in shares[1:]))


def _same_share(known: Any, blocks: Any, tasks: int, *arguments: Any) -> Any:
    shares = known(blocks, tasks, *arguments)
    return (shares[0],) * len(shares)


def _files(change: Callable[[list[Any]], list[Any]]) -> Any:
    def inputs(known: Any, *arguments: Any) -> Any:
        blocks, files = known(*arguments)
        return blocks, {origin: change(refs) for origin, refs in files.items()}

    return attempt.JobSpecs, "_inputs", inputs


def _jobs(change: Callable[[list[Any]], list[Any]]) -> Any:
    def run(known: Any, *arguments: Any) -> Any:
        return Outcome(change(known(*arguments).jobs))

    return InlineExecutor, "run", run


def _lost_table(known: Any, blobs: Any) -> Any:
    tables = known(blobs)
    tables.pop(next(iter(tables)), None)
    return tables


def _cut_table(known: Any, blobs: Any) -> Any:
    cut = known(blobs).items()
    return {tag: [(at, part.slice(1)) for at, part in parts] for tag, parts in cut}


def _fewer_parts(known: Any, store: Any, name: str, parts: Any) -> Any:
    return known(store, name, list(parts)[1:])


def _cut_written(known: Any, place: Any, name: str, table: Any) -> Any:
    return known(place, name, table.slice(1))


def _fewer_called(known: Any, step: Any, tables: Any, *arguments: Any) -> Any:
    return known(step, [part.slice(1) for part in tables], *arguments)


def _silent_filter(known: Any, batches: Any, *arguments: Any, **options: Any) -> Any:
    return known((each.slice(1) for each in batches), *arguments, **options)


def _lost_reads(known: Any, packers: Packers, rows: Any) -> None:
    known(packers, type(rows)(rows.origin, rows.part, rows.start + 1, rows.end))


def _uncounted(known: Any, packers: Packers, *arguments: Any) -> Any:
    packers._told = lambda: None  # type: ignore[method-assign]
    return known(packers, *arguments)


DEFECTS: dict[str, tuple[Any, str, Any]] = {
    "a blob is lost": _blobs(_lose),
    "a blob comes twice": _blobs(_double),
    "a blob goes to another unit": _blobs(_misdeliver),
    "two units get what is the other's": _blobs(_exchange_units),
    "the rows of two blobs are exchanged": _blobs(_exchange_rows),
    "a waybill is lost": _blobs(_lose_waybill),
    "all that a task packed is lost": _blobs(_lose_task),
    "all that a task packed comes twice": _blobs(_double_task),
    "nothing comes at all": _blobs(_lose_all),
    "a blob is taken for that of another step": _blobs(_other_step),
    "a row in a blob is lost": _blobs(_repacked(lambda t: t.slice(1))),
    "a row in a blob is doubled": _blobs(_repacked(lambda t: pa.concat_tables([t, t.slice(0, 1)]))),
    "the blobs are those of the microbatch before": _blobs(Stale(waybills=False)),
    "blobs and waybills are those of the microbatch before": _blobs(Stale(waybills=True)),
    "the file of a parked blob is replaced by another's": (inline, "_packed", _park),
    "a packer gets a row less": (KeyedPacker, "add", _fewer),
    "a packer gets a batch twice": (KeyedPacker, "add", _twice),
    "a packer gets nothing": (KeyedPacker, "add", _skip),
    "a packer forgets its last batch": (KeyedPacker, "finish", _forget_last),
    "a packer sends rows to the wrong units": (KeyedPacker, "finish", _rolled),
    "a packer forgets all units but one": (KeyedPacker, "finish", _one_blob),
    "rows for a depot are forgotten": (AppendPacker, "finish", _forget_last),
    "rows to stage are forgotten": (SpreadPacker, "finish", _forget_last),
    "a rejected row is dropped": (RejectPacker, "add", _skip),
    "a rejected row is reported twice": (RejectPacker, "add", _twice),
    "a split is not read": (inline, "feed_splits", _skip),
    "a split is read twice": (inline, "feed_splits", _twice),
    "a block lacks a row": (reading, "read_block", _row_less),
    "rows are lost when blocks are joined": (reading, "_joined", _rows_less),
    "a block is left out of the plan": (Depot, "blocks", _without_last),
    "a block is in the plan twice": (Depot, "blocks", _doubled),
    "a task's share is forgotten": (attempt, "cut_blocks", _first_share),
    "all tasks read one share": (attempt, "cut_blocks", _same_share),
    "a staged file is not read": _files(lambda refs: refs[:-1]),
    "a staged file is read twice": _files(lambda refs: refs * 2),
    "a staged file lacks a row": (reading, "read_staged", _rows_less),
    "a step loses a row": (chain, "run_steps", _silent_filter),
    "a map loses a row": (atoll.steps.rows.map.Map, "run", _rows_less),
    "an actor is not run": _jobs(lambda jobs: [type(j)(j.index, j.manifests[:-1]) for j in jobs]),
    "a manifest is there twice": _jobs(
        lambda jobs: [type(j)(j.index, [*j.manifests, j.manifests[0]]) for j in jobs]
    ),
    "one actor's manifest is taken for another's": _jobs(
        lambda jobs: [type(j)(j.index, j.manifests[:1] * len(j.manifests)) for j in jobs]
    ),
    "a job is not run": (inline, "has_work", lambda _known, *_: False),
    "a job is forgotten": _jobs(lambda jobs: jobs[:-1]),
    "an actor loses the rows of a step": (actor, "_unpacked", _lost_table),
    "an actor loses a row of each blob": (actor, "_unpacked", _cut_table),
    "an actor leaves out a step": (actor._Actor, "_execute", _skip),
    "a process is not called with a row": (process_run, "process", _fewer_called),
    "a staged file is written without a row": (actor, "stage", _cut_written),
    "an incremental log lacks a vnode": (actor, "write_change_file", _fewer_parts),
    "rows for depots are written without one": (actor, "write_durably", _cut_written),
    "what was read is not what is told": (Packers, "read", _lost_reads),
    "a task does not tell what it counted": (Packers, "parcels", _uncounted),
}


@pytest.fixture
def driver(folder, monkeypatch):
    """On two units, with two reading tasks however few the rows are."""
    monkeypatch.setattr(attempt, "_ROWS_PER_READER_LEAST", 5)
    with TopologyTestDriver(declare(), root=folder, engine="inline") as made:
        yield made


def _expected(microbatches: int) -> dict[str, Any]:
    sums: Counter[str] = Counter()
    for row in ROWS:
        if row["v"] >= 0 and row not in BAD:
            sums[row["k"]] += row["v"]
    return {
        "sums": {key: value * microbatches for key, value in sums.items()},
        "later": {key: 2 * value * microbatches for key, value in sums.items()},
        "seen": COUNT * microbatches,
        "out": COUNT * microbatches,
        "rejected": len(BAD) * microbatches,
    }


def _found(driver: TopologyTestDriver) -> dict[str, Any]:
    return {
        "sums": {key: driver.pstate("sums").get(key) for key in KEYS},
        "later": {key: driver.pstate("later").get(key) for key in KEYS},
        "seen": sum(driver.pstate("seen").get(key) for key in KEYS),
        "out": sum(driver.depot("out").end_offsets()),
        "rejected": sum(driver.depot("rejected").end_offsets()),
    }


def _microbatch(driver: TopologyTestDriver, armed: dict[str, Any]) -> list[dict[str, Any]]:
    """One microbatch to its end; the errors of the attempts that failed. One of them is armed."""
    errors = []
    while (step := driver.step()) != "tidy":
        if step == "failed":
            armed["on"] = False
            errors.append(driver.status()["error"])
        assert step != "idle"
    return errors


def test_a_microbatch_without_defects_adds_up(driver):
    """The suite proves something: nothing is refused here, and the counts are told."""
    driver.depot("rows").append(ROWS)
    assert _microbatch(driver, {}) == []
    assert _found(driver) == _expected(1)
    rows: dict[str, Any] = {}
    for each in driver.status()["rows"]:
        rows.setdefault(each["step"].split(" (")[0], each)
    assert rows["where"]["rows"] == len(ROWS)
    assert rows["where"]["dropped"] == sum(1 for row in ROWS if row["v"] < 0)
    assert rows["map"]["rejected"] == len(BAD)
    assert rows["process"]["out"] == COUNT


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_refused(name, driver, monkeypatch):
    """The attempt with it fails by its accounts; the next one is right."""
    target, attribute, wrong = DEFECTS[name]
    armed = {"on": False, "used": 0}
    known = getattr(target, attribute)
    packed = inline._packed
    if name.endswith("microbatch before"):
        monkeypatch.setattr(inline, "_packed", _keeping(packed))
        known = inline._packed
    monkeypatch.setattr(target, attribute, Once(armed, known, wrong))
    driver.depot("rows").append(ROWS)
    assert _microbatch(driver, armed) == []
    driver.depot("rows").append(ROWS)
    armed["on"] = True
    errors = _microbatch(driver, armed)
    assert armed["used"], "the defect was not reached"
    assert [each["code"] for each in errors] == [AccountsError.code]
    assert errors[0]["context"]["job"] in ("0", "1", "2")
    assert errors[0]["context"]["expected"] != errors[0]["context"]["found"]
    assert _found(driver) == _expected(2)
    print(f"\nplanted: {name}: {errors[0]['message'][:160]}")


def _alone(program: Program, _job: Any, spec: Any, *_: Any) -> Any:
    """Small microbatches: each actor reads all rows, and keeps those of its unit."""
    return chain.packed_alone(program, spec, program.units)


def _other_unit(known: Any, packers: Packers, only: Any = None) -> Any:
    for unit, tag, rows in known(packers, only):
        yield unit if only is None else 1 - unit, tag, rows


def _nothing_packed(known: Any, *arguments: Any) -> Any:
    list(known(*arguments))
    return iter(())


class _Less:
    """Does not read the third share: the first one of the second actor."""

    calls = 0

    def __call__(self, known: Any, *arguments: Any) -> None:
        """Read."""
        self.calls += 1
        if self.calls != 3:
            known(*arguments)


ALONE: dict[str, tuple[Any, str, Any]] = {
    "an actor takes the rows of another": (Packers, "parcels", _other_unit),
    "one actor reads less than the other": (chain, "feed_splits", _Less()),
    "no actor reads": (chain, "feed_splits", _skip),
    "every actor reads twice": (chain, "feed_splits", _twice),
    "packers send rows to the wrong units": (KeyedPacker, "finish", _rolled),
    "actors forget the rows of a step": (KeyedPacker, "finish", _nothing_packed),
}


@pytest.mark.parametrize("name", ALONE)
def test_actors_that_read_for_themselves(name, driver, monkeypatch):
    """The rows that they keep are all rows, each once."""
    monkeypatch.setattr(inline, "_packed", _alone)
    target, attribute, wrong = ALONE[name]
    armed = {"on": False, "used": 0}
    monkeypatch.setattr(target, attribute, Once(armed, getattr(target, attribute), wrong))
    driver.depot("rows").append(ROWS)
    assert _microbatch(driver, armed) == []
    driver.depot("rows").append(ROWS)
    armed["on"] = True
    errors = _microbatch(driver, armed)
    assert armed["used"], "the defect was not reached"
    assert [each["code"] for each in errors] == [AccountsError.code]
    assert _found(driver) == _expected(2)


def _keeping(known: Any) -> Any:
    """Keep what the first job of the first microbatch packed."""

    def packed(program: Program, job: Any, spec: Any, *more: Any) -> Any:
        blobs = known(program, job, spec, *more)
        if spec.id == 1 and job.index == 0:
            Stale.kept.update({unit: list(mine) for unit, mine in blobs.items()})
        return blobs

    return packed
