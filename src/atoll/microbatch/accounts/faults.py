"""Finds where two counts that should be one differ. Pure: entries in, what is wrong out.

Nothing is believed here because somebody planned it: each count is held against one that other
code made at the other end of a hand-over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from atoll.errors import AccountsError
from atoll.microbatch.accounts.entries import (
    PART_TASKS,
    REJECTS,
    STEP_TASKS,
    JobChart,
    Parcel,
    RowsRead,
    StepChart,
    Waybill,
)

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Ranges
    from atoll.microbatch.outcome import JobOutcome


_HINT = (
    "the attempt is run again; when it stays so, Atoll or the disk below it has a defect: "
    "pause the topology, keep its root and report the message"
)


class Fault(NamedTuple):
    """Two counts that should be one."""

    what: str
    """Who says so, and of what."""
    expected: int
    found: int
    step: str = ""
    unit: int | None = None

    def __str__(self) -> str:
        """As a person reads it."""
        where = "" if self.unit is None else f" on unit {self.unit}"
        step = f"{self.step}: " if self.step else ""
        return f"{step}{self.what}{where} ({self.found} instead of {self.expected})"


def refuse(job: int, faults: Iterable[Fault]) -> None:
    """Raise when something is wrong.

    Raises:
        AccountsError: It names the first fault, and counts the others.
    """
    found = list(faults)
    if not found:
        return
    first = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    where = {"step": first.step} if first.step else {}
    where |= {} if first.unit is None else {"unit": str(first.unit)}
    raise AccountsError(
        f"the rows of job {job} do not add up: {first}{more}",
        hint=_HINT,
        job=str(job),
        **where,
        expected=str(first.expected),
        found=str(first.found),
    )


# What an actor got --------------------------------------------------------------------------------


def delivery_faults(
    attempt: tuple[int, int, int, int],
    unit: int,
    tasks: Mapping[int, int],
    waybills: Sequence[Waybill],
    found: Sequence[Parcel],
    names: Mapping[int, str],
) -> Iterator[Fault]:
    """Whether an actor got what was packed for it, each blob once and nothing else.

    Args:
        attempt: Epoch, id, version and job of the actor.
        unit: Its unit.
        tasks: For each part of the job how many tasks pack, 0 where only the engine knows.
        waybills: What the packing tasks say.
        found: The blobs that came.
        names: The steps by tag.
    """
    for waybill in waybills:
        if waybill.attempt != attempt:
            said = f"a waybill of task {waybill.task} is of attempt {waybill.attempt}"
            yield Fault(f"{said}, not of {attempt}", 0, 1, unit=unit)
        if waybill.unit != unit:
            yield Fault(f"a waybill for unit {waybill.unit} came", 0, 1, unit=unit)
    if any(each.alone for each in waybills):
        tasks = {0: 1}
    numbers = sorted(each.task for each in waybills if each.task < STEP_TASKS)
    for part, count in tasks.items():
        mine = [each % PART_TASKS for each in numbers if each // PART_TASKS == part]
        first = 0 if count or not mine else mine[0]
        last = first + count if count else mine[-1] + 1 if mine else 1
        if mine != list(range(first, last)):
            said = f"waybills came of the packing tasks {mine} of part {part}"
            yield Fault(said, last - first, len(mine), unit=unit)
    strange = [each for each in numbers if each // PART_TASKS not in tasks]
    if strange:
        yield Fault(f"waybills came of unknown packing tasks {strange}", 0, len(strange), unit=unit)
    told = Counter(parcel for waybill in waybills for parcel in waybill.parcels)
    came = Counter(found)
    for parcel in sorted(told | came):
        if told[parcel] != came[parcel]:
            what = f"a blob of {parcel.size} bytes that task {parcel.task} packed came"
            yield Fault(what, told[parcel], came[parcel], _name(parcel.tag, names), unit)


def _name(tag: int, names: Mapping[int, str]) -> str:
    return "rejected rows" if tag == REJECTS else names.get(tag, f"step {tag}")


# What was read ------------------------------------------------------------------------------------


def expected_reads(
    chart: JobChart, ranges: Ranges, earlier: Sequence[JobOutcome], origins: Collection[int]
) -> list[RowsRead]:
    """What a job has to read of some of its origins: by the plan, and by the earlier manifests."""
    expected = []
    for origin in sorted(origins):
        source = chart.origins[origin]
        if source is None:
            expected += [
                RowsRead(origin, staged.file.name, 0, staged.file.rows)
                for job in earlier
                for manifest in job.manifests
                for staged in manifest.staged
                if staged.operator == origin
            ]
        else:
            expected += [
                RowsRead(origin, str(partition), start, end)
                for partition, (start, end) in enumerate(ranges[source])
                if end > start
            ]
    return expected


def read_faults(
    origins: Mapping[int, str | None], expected: Iterable[RowsRead], found: Iterable[RowsRead]
) -> Iterator[Fault]:
    """Whether what was read covers what was to be read, each row once.

    ``origins`` names the depots, as a chart does.
    """
    wanted = {(each.origin, each.part): each for each in expected}
    reads: dict[tuple[int, str], list[RowsRead]] = {place: [] for place in wanted}
    for each in found:
        reads.setdefault((each.origin, each.part), []).append(each)
    for (origin, part), parts in reads.items():
        where = _source(origins, origin, part)
        want = wanted.get((origin, part))
        if want is None:
            rows = sum(each.end - each.start for each in parts)
            if rows:
                yield Fault(f"{where} was read, which is not planned", 0, rows)
            continue
        at = want.start
        for each in sorted(parts):
            if each.start != at:
                word = "twice" if each.start < at else "by no task"
                low, high = min(at, each.start), max(at, each.start)
                what = f"{where}, rows {low} to {high} were read {word}"
                yield Fault(what, want.end - want.start, sum(e.end - e.start for e in parts))
            at = max(at, each.end)
        if at != want.end:
            word = "by no task" if at < want.end else "although not planned"
            what = f"{where}, rows {min(at, want.end)} to {max(at, want.end)} were read {word}"
            yield Fault(what, want.end - want.start, sum(e.end - e.start for e in parts))


def _source(origins: Mapping[int, str | None], origin: int, part: str) -> str:
    source = origins.get(origin)
    return f"the staged file {part}" if source is None else f"{source}[{part}]"


# What steps made of it ----------------------------------------------------------------------------


def chain_faults(
    name: str, steps: Sequence[StepChart], rows: Sequence[int], aside: Sequence[int]
) -> Iterator[Fault]:
    """Whether each step of a chain made of its rows what it may make of them."""
    if len(rows) != len(steps) + 1 or len(aside) != len(steps):
        yield Fault(f"steps of {name} were counted", len(steps), len(rows) - 1)
        return
    for index, step in enumerate(steps):
        kept, out = rows[index] - aside[index], rows[index + 1]
        wrong = kept < 0 or (step.makes == "one" and out != kept)
        if wrong or (step.makes == "at most one" and out > kept):
            yield Fault(
                f"of {rows[index]} rows, {aside[index]} rejected, came", kept, out, step.name
            )
