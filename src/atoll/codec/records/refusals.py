"""The outcome of checking records: the good ones as one batch, and why others were refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

REFUSALS_KEPT_MAX = 100
"""How many refusals of one call are kept with their reasons; all of them are counted."""


class Refusal(msgspec.Struct, frozen=True):
    """One record that does not fit: its line (from 1, within the call) and why."""

    line: int
    reason: str


@dataclass(slots=True)
class Refusals:
    """Refusals of one call, in bounded memory: the first ones kept, all counted."""

    kept: list[Refusal] = field(default_factory=list)
    count: int = 0

    def add(self, line: int, reason: str) -> None:
        """Note one more refused record."""
        self.count += 1
        if len(self.kept) < REFUSALS_KEPT_MAX:
            self.kept.append(Refusal(line, reason))

    def extend(self, refusals: Iterable[Refusal], count: int) -> None:
        """Note the refusals of a later part of the same call."""
        self.count += count
        room = REFUSALS_KEPT_MAX - len(self.kept)
        self.kept.extend(list(refusals)[:room])


@dataclass(frozen=True, slots=True)
class Checked:
    """Some records after checking.

    Attributes:
        batch: The good records, with the depot's schema, in the order given.
        refusals: The first refused ones, by line.
        refused_count: How many were refused in all.
        records: The good records as the codec's own objects, where they came as Python rows:
            ``RecordCodec.batch_of`` makes one batch of those of several appends.
        before: The same records as an earlier schema takes them, where somebody asked for that
            (``atoll.depot.producers.resent``).
    """

    batch: pa.RecordBatch
    refusals: list[Refusal]
    refused_count: int
    records: list[Any] | None = None
    before: Checked | None = None

    def without(self, late: Mapping[int, str]) -> Checked:
        """The same when more were refused, by line; they are none of the good ones."""
        merged = Refusals()
        known = {refusal.line: refusal.reason for refusal in self.refusals}
        for line, reason in sorted({**known, **late}.items()):
            merged.add(line, reason)
        count = self.refused_count + len(late)
        return replace(self, refusals=merged.kept, refused_count=count)
