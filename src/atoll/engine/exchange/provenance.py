"""Where a row came from: the record of a depot that it was made of.

The records of a microbatch are numbered: its plan's ranges are laid end to end, in the order of
the depots' names, depot partitions and offsets. Rows on their way to a user's function carry
their record's number in a hidden column; only the ranges turn it back into depot, depot partition
and offset. Rows that no such function will see carry nothing.

Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from atoll.errors import AtollError
from atoll.microbatch.plans.planning import partition_name
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.engine.program import JobSpec, Program
    from atoll.microbatch.commits.objects import Ranges
    from atoll.topology.graph import Graph


class Record(NamedTuple):
    """One record of a depot."""

    depot: str
    partition: int
    offset: int


class Records:
    """The records of a microbatch by number."""

    def __init__(self, ranges: Ranges) -> None:
        """Lay the ranges end to end."""
        self._begins: list[int] = []
        self._firsts: list[Record] = []
        self.count = 0
        for depot, partition, start, end in _laid(ranges):
            if end > start:
                self._begins.append(self.count)
                self._firsts.append(Record(depot, partition, start))
                self.count += end - start

    def partitions(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
        """Which depot partition the records of these numbers are of.

        Returns:
            For each number an index into the second, which names the partitions: ``bids/3``.
        """
        at = np.searchsorted(np.array(self._begins, np.int64), numbers, side="right") - 1
        return at, [partition_name(each.depot, each.partition) for each in self._firsts]

    def find(self, number: int | None) -> Record | None:
        """The record of that number; None when there is none."""
        if number is None or not 0 <= number < self.count:
            return None
        at = bisect_right(self._begins, number) - 1
        depot, partition, start = self._firsts[at]
        return Record(depot, partition, start + number - self._begins[at])


def first_numbers(ranges: Ranges) -> dict[str, int]:
    """For each depot the number of its first record."""
    firsts: dict[str, int] = {}
    count = 0
    for depot, _, start, end in _laid(ranges):
        firsts.setdefault(depot, count)
        count += end - start
    return firsts


def _laid(ranges: Ranges) -> Iterator[tuple[str, int, int, int]]:
    for depot in sorted(ranges):
        for partition, (start, end) in enumerate(ranges[depot]):
            yield depot, partition, start, end


def tracked_operators(graph: Graph) -> set[Operator]:
    """The operators whose rows a user's function will see, or a watermark, or rows of them."""
    tracked: set[Operator] = set()
    for operator in reversed(graph.operators):
        if operator.sees_records or operator in tracked:
            tracked.update(operator.inputs)
    return tracked


@contextmanager
def locating(program: Program, spec: JobSpec) -> Iterator[None]:
    """Let errors of rows and user functions raised inside say topology, microbatch and record."""
    try:
        yield
    except AtollError as error:
        if error.permanent or "row" in error.context or "line" in error.context:
            error.context.setdefault("topology", program.topology)
            error.context.setdefault("microbatch", spec.id)
        origin = error.context.pop("origin", None)
        if origin is not None:
            for name, value in _place(Records(spec.ranges), origin).items():
                error.context.setdefault(name, value)
        raise


def _place(records: Records, origin: int | tuple[int, int]) -> dict[str, object]:
    """A record, or the records from one to another, as an error's context."""
    if isinstance(origin, int):
        first = last = records.find(origin)
    else:
        first, last = records.find(origin[0]), records.find(origin[1])
    if first is None or last is None:
        return {}
    if first == last:
        offsets: object = first.offset
    elif first[:2] == last[:2]:
        offsets = f"{first.offset} to {last.offset}"
    else:
        offsets = f"{first.offset} to {last.depot}[{last.partition}]:{last.offset}"
    return {"depot": first.depot, "depot_partition": first.partition, "record_offset": offsets}
