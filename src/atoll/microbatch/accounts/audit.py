"""Decides whether the accounts of an attempt add up. Pure: entries in, a refusal out.

An attempt of which a row was lost, doubled or sent to the wrong actor must not commit, whoever
is at fault.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from atoll.microbatch.accounts.entries import (
    REJECTS,
    STEP_TASKS,
    ActorAccounts,
    ChainChart,
    EndChart,
    JobChart,
    PackedRows,
    StepChart,
    StepRows,
    TaskAccounts,
)
from atoll.microbatch.accounts.faults import (
    Fault,
    chain_faults,
    expected_reads,
    read_faults,
    refuse,
)

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Ranges
    from atoll.microbatch.outcome import JobOutcome, Manifest


def audit(
    charts: Sequence[JobChart], ranges: Ranges, units: Sequence[int], jobs: Sequence[JobOutcome]
) -> None:
    """Refuse an attempt whose accounts do not add up.

    Args:
        charts: What the jobs are known to do.
        ranges: What the plan says that the microbatch reads.
        units: Whose actors ran it.
        jobs: What came of it.

    Raises:
        AccountsError: It names the job, the step and the counts.
    """
    if len(jobs) != len(charts):
        refuse(len(jobs), [Fault("jobs ended", len(charts), len(jobs))])
    for number, (chart, job) in enumerate(zip(charts, jobs, strict=True)):
        refuse(chart.index, _job_faults(chart, ranges, units, job, jobs[:number]))


def _job_faults(
    chart: JobChart,
    ranges: Ranges,
    units: Sequence[int],
    job: JobOutcome,
    earlier: Sequence[JobOutcome],
) -> Iterator[Fault]:
    if not job.manifests:  # it was not run
        every = expected_reads(chart, ranges, earlier, chart.origins)
        yield from read_faults(chart.origins, [each for each in every if each.end > each.start], [])
        return
    ran = sorted(manifest.unit for manifest in job.manifests)
    if ran != sorted(units):
        odd = next(unit for unit in (*units, *ran) if ran.count(unit) != units.count(unit))
        what = f"actors of the units {ran} reported, not of {sorted(units)}"
        yield Fault(what, units.count(odd), ran.count(odd), unit=odd)
        return
    if len(set(job.tokens)) != len(ran):
        yield Fault("actors reported under tokens of their own", len(ran), len(set(job.tokens)))
    actors = {each.unit: each.accounts for each in job.manifests if each.accounts is not None}
    if len(actors) != len(ran):
        yield Fault("actors told what they counted", len(ran), len(actors))
        return
    told = _told(actors.values())
    yield from _teller_faults(actors)
    yield from read_faults(
        chart.origins,
        expected_reads(chart, ranges, earlier, chart.counted),
        [each for task in told for each in task.reads],
    )
    for task in told:
        yield from _task_faults(chart, task)
    yield from _origin_faults(chart, told)
    packed = _packed_for(told)
    for manifest in job.manifests:
        mine = packed.get(manifest.unit, Counter())
        yield from _actor_faults(chart, mine, manifest, actors[manifest.unit])
    yield from _end_faults(chart, told, job, actors.values())


def _told(actors: Iterable[ActorAccounts]) -> list[TaskAccounts]:
    """What the packing tasks counted; an actor alone packs all rows, for every unit."""
    found = [told for actor in actors for told in actor.told]
    if any(actor.alone for actor in actors):
        return found[:1]
    return sorted(found, key=lambda each: each.task)


def _teller_faults(actors: Mapping[int, ActorAccounts]) -> Iterator[Fault]:
    """Whether every packing task told its counts once, and all actors heard of the same tasks."""
    some = next(iter(actors.values()))
    for unit, actor in actors.items():
        if (actor.alone, sorted(actor.tasks)) != (some.alone, sorted(some.tasks)):
            what = f"waybills came of the packing tasks {actor.tasks}, elsewhere of {some.tasks},"
            yield Fault(what, len(some.tasks), len(actor.tasks), unit=unit)
        if some.alone and actor.told != some.told:
            expected, found = (_rows_read(each.told) for each in (some, actor))
            what = "what the actors counted that read for themselves differs: rows read"
            yield Fault(what, expected, found, unit=unit)
    if not some.alone:
        tellers = sorted(t.task for a in actors.values() for t in a.told if t.task < STEP_TASKS)
        if tellers != sorted(some.tasks):
            yield Fault(
                f"counts came of the packing tasks {tellers}", len(some.tasks), len(tellers)
            )


def _rows_read(told: Sequence[TaskAccounts]) -> int:
    return sum(each.rows for task in told for each in task.reads)


def _origin_faults(chart: JobChart, told: Sequence[TaskAccounts]) -> Iterator[Fault]:
    """Whether every chain got all rows that were read for it."""
    read: Counter[int] = Counter()
    got: Counter[int] = Counter()
    for task in told:
        for each in task.reads:
            read[each.origin] += each.rows
        for counted in task.chains:
            got[counted.chain] += counted.rows[0]
    for index, chain in enumerate(chart.chains):
        free = any(step.makes == "free" for step in chain.steps)
        expected, found = read[chain.origin], got[index]
        if chain.reads and (found > expected if free else found != expected):
            yield Fault("of the rows read there went on", expected, found, chain.name)


def _packed_for(told: Sequence[TaskAccounts]) -> dict[int, Counter[int]]:
    """How many rows all tasks packed for each unit, by tag."""
    by_tag: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for task in told:
        for each in task.packed:
            rows = by_tag[each.tag]
            for unit, count in each.packed.items():  # with many units, most of an audit's time
                rows[unit] += count
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for tag, rows in by_tag.items():
        for unit, count in rows.items():
            found[unit][tag] = count
    return found


def _actor_faults(
    chart: JobChart, packed: Counter[int], manifest: Manifest, actor: ActorAccounts
) -> Iterator[Fault]:
    """Whether an actor got the rows that were packed for it, took them, and left what it gave."""
    staged: Counter[int] = Counter()
    for file in manifest.staged:
        staged[file.operator] += file.file.rows
    came = actor.received.get(REJECTS, 0)
    yield from _differ(_CAME, packed[REJECTS], came, "rejected rows", manifest.unit)
    for end in chart.ends:
        tag, step = end.tag, (end.name, manifest.unit)
        received, executed = actor.received.get(tag, 0), actor.executed.get(tag, 0)
        given = actor.emitted.get(tag, 0)
        yield from _differ(_CAME, packed[tag], received, *step)
        if end.packs != "told":
            yield from _differ("of the rows that came the step took", received, executed, *step)
        if end.gives == "one" or (end.gives == "at most one" and given > executed):
            yield from _differ("of the rows that it took it gave", executed, given, *step)
        yield from _differ("of the rows that it gave there were staged", given, staged[tag], *step)
    for pstate in sorted({*actor.changed, *manifest.logs}):
        logged = manifest.logs[pstate].file.rows if pstate in manifest.logs else 0
        what = f"of the changed entries of {pstate} there are in the log"
        yield from _differ(what, actor.changed.get(pstate, 0), logged, "", manifest.unit)


_CAME = "of the rows packed for the actor came"


def _differ(
    what: str, expected: int, found: int, step: str = "", unit: int | None = None
) -> Iterator[Fault]:
    if expected != found:
        yield Fault(what, expected, found, step, unit)


def _end_faults(
    chart: JobChart,
    told: Sequence[TaskAccounts],
    job: JobOutcome,
    actors: Collection[ActorAccounts],
) -> Iterator[Fault]:
    """Whether all rows for depots are in files, and all rows that are only counted in counts."""
    taken: Counter[int] = Counter()
    made: Counter[int] = Counter()
    for task in told:
        for each in task.packed:
            taken[each.tag] += each.taken
            made[each.tag] += each.made
    written: Counter[str] = Counter()
    for manifest in job.manifests:
        for rows in manifest.appends:
            written["" if rows.kind == "rejected" else rows.depot] += rows.file.rows
    rejected = taken[REJECTS] + sum(sum(each.aside.values()) for each in actors)
    yield from _differ("of the rejected rows there were written", rejected, written[""])
    for depot in sorted({each.depot for each in chart.ends if each.depot is not None}):
        expected = sum(made[each.tag] for each in chart.ends if each.depot == depot)
        yield from _differ(f"for depot {depot} there were written", expected, written[depot])
    for end in chart.ends:
        if end.counts is not None:
            counted = sum(each.dropped.get(end.counts, 0) for each in job.manifests)
            yield from _differ("rows were counted", taken[end.tag], counted, end.name)


# One task -----------------------------------------------------------------------------------------


def _task_faults(chart: JobChart, told: TaskAccounts) -> Iterator[Fault]:
    """Whether what one packing task counted fits together."""
    reaching: Counter[int] = Counter()
    rejected = 0
    for counted in told.chains:
        chain = chart.chains[counted.chain]
        yield from chain_faults(chain.name, chain.steps, counted.rows, counted.aside)
        rejected += sum(counted.aside[chain.repeated :])
        for tag in chain.ends:
            reaching[tag] += counted.rows[-1]
    by_tag = {each.tag: each for each in told.packed}
    for end in chart.ends:
        packed = by_tag.get(end.tag, _nothing(end.tag))
        rejected += packed.aside
        what = f"of the rows that reached it task {told.task} took"
        yield from _differ(what, reaching[end.tag], packed.taken, end.name)
        yield from _packing_faults(end, packed, told.task)
    if told.task < STEP_TASKS:
        reported = by_tag.get(REJECTS, _nothing(REJECTS)).taken
        yield from _differ(f"of its rejected rows task {told.task} reported", rejected, reported)


def _packing_faults(end: EndChart, packed: PackedRows, task: int) -> Iterator[Fault]:
    """Whether a packer left out no row silently, whatever it combined."""
    kept = packed.taken - packed.left_out - packed.aside
    match end.packs:
        case "each":
            wrong = packed.made != kept * end.copies
        case "folded":
            wrong = packed.made > kept or (packed.made == 0) != (kept == 0)
        case "told":
            return
    if wrong or kept < 0:
        gone = f"{packed.left_out} without a key and {packed.aside} rejected"
        what = f"of {packed.taken} rows, {gone}, task {task} packed"
        yield Fault(what, kept * end.copies, packed.made, end.name)
    total = sum(packed.packed.values())
    yield from _differ(f"for all units task {task} packed", packed.made, total, end.name)


def _nothing(tag: int) -> PackedRows:
    return PackedRows(tag, 0, 0, 0, 0, {})


# What the commit keeps ----------------------------------------------------------------------------


def rows_by_step(charts: Sequence[JobChart], jobs: Sequence[JobOutcome]) -> list[StepRows]:
    """How many rows each step took, made, left out and rejected, in the order of the jobs."""
    found: list[StepRows] = []
    for chart, job in zip(charts, jobs, strict=True):
        actors = [each.accounts for each in job.manifests if each.accounts is not None]
        told = _told(actors)
        found += _chain_rows(chart, told)
        for end in chart.ends:
            mine = [each for task in told for each in task.packed if each.tag == end.tag]
            aside = sum(each.aside for each in mine)
            aside += sum(each.aside.get(end.tag, 0) for each in actors)
            counts = [sum(each.taken for each in mine), sum(each.left_out for each in mine)]
            out = sum(each.emitted.get(end.tag, 0) for each in actors)
            if counts[0] or out:
                found.append(StepRows(end.name, counts[0], out, counts[1], aside))
    return found


def _chain_rows(chart: JobChart, told: Sequence[TaskAccounts]) -> Iterator[StepRows]:
    """Of the steps of chains; what several chains share is counted once."""
    totals: dict[int, tuple[StepChart, list[int]]] = {}
    first: dict[int, ChainChart] = {}
    for task in told:
        for counted in task.chains:
            chain = chart.chains[counted.chain]
            for index, step in enumerate(chain.steps):
                if first.setdefault(step.number, chain) is chain:
                    _, total = totals.setdefault(step.number, (step, [0, 0, 0]))
                    total[0] += counted.rows[index]
                    total[1] += counted.rows[index + 1]
                    total[2] += counted.aside[index]
    for step, (rows, out, aside) in totals.values():
        if rows or out:
            dropped = rows - aside - out if step.makes == "at most one" else 0
            yield StepRows(step.name, rows, out, dropped, aside)
