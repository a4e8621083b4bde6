"""Counts rows where tasks hand them on; what must add up is decided elsewhere.

A packer counts what it takes and what it makes of it in its :class:`PackCounts`, a chain of steps
in its :class:`ChainCounts`. Whoever drops a row by its own doing says so there: ``left_out`` for a
row that adds nothing, ``aside`` for one that is rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atoll.beats import present
from atoll.microbatch.accounts.entries import ChainRows, PackedRows

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.errors import AtollError
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects, Step


@dataclass
class PackCounts:
    """What one packer counts.

    Attributes:
        taken: The rows given to it.
        left_out: Those of them that add nothing, as a key of theirs is null that none can be.
        aside: Those of them that it rejected.
        made: The rows to pack: what is left when rows of one key were combined.
        packed: The same by the unit that they are for.
    """

    taken: int = 0
    left_out: int = 0
    aside: int = 0
    made: int = 0
    packed: Counter[int] = field(default_factory=Counter)

    def all_for(self, unit: int, rows: int) -> None:
        """All rows go to one unit."""
        self.made = rows
        self.packed = Counter({unit: rows})

    def entry(self, tag: int) -> PackedRows:
        """For the accounts."""
        packed = {unit: rows for unit, rows in self.packed.items() if rows}
        return PackedRows(tag, self.taken, self.left_out, self.aside, self.made, packed)


class ChainCounts:
    """What passes a chain of steps in one task.

    Args:
        steps: How many steps there are.
    """

    def __init__(self, steps: int) -> None:
        """Nothing has passed."""
        self.rows = [0] * (steps + 1)
        self.aside = [0] * steps

    def passing(
        self, batches: Iterator[pa.RecordBatch], at: int, out: Any, into: Any
    ) -> Iterator[pa.RecordBatch]:
        """The same batches, counted: what goes into the first step (0), or comes out of one.

        Their task says that it is at what they come ``out`` of, or at what they go ``into``.
        """
        task = present()
        task.begin(out)
        for batch in batches:
            self.rows[at] += batch.num_rows
            task.begin(into)
            yield batch
            task.begin(out)

    def rejecting(self, rejects: Rejects | None, step: int) -> Rejects | None:
        """The same rejects, counted."""
        return None if rejects is None else _Counted(self, rejects, step)

    def entry(self, chain: int) -> ChainRows:
        """For the accounts."""
        return ChainRows(chain, self.rows, self.aside)


class _Counted:
    """Counts the rejected rows of one step."""

    def __init__(self, counts: ChainCounts, rejects: Rejects, step: int) -> None:
        self.counts = counts
        self.rejects = rejects
        self.at = step

    def add(self, step: Step, row: Row, origin: int | None, error: AtollError) -> None:
        """Count it and hand it on."""
        self.counts.aside[self.at] += 1
        self.rejects.add(step, row, origin, error)
