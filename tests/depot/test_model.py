"""A depot against a model: lists in memory, whatever is appended, torn, reopened and trimmed."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from depot_samples import segments, spec_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from atoll.depot import Depot, DepotReader, Retention
from atoll.depot.segments import segment_file
from atoll.errors import RecordsRefusedError, StorageError

records = st.fixed_dictionaries(
    {"k": st.sampled_from("abcdefg")}, optional={"v": st.integers(-100, 100)}
)


class DepotMachine(RuleBasedStateMachine):
    """Rules act on both; the invariant compares offsets and records."""

    def __init__(self) -> None:
        """An empty depot and an empty model."""
        super().__init__()
        self.stack = contextlib.ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "depot"

    @initialize(partitions=st.sampled_from([1, 2, 3]))
    def begin(self, partitions: int) -> None:
        """Choose the number of partitions."""
        self.spec = spec_of(partitions=partitions, retention=Retention(records_max=10))
        self.epoch = 1
        self.depot = Depot(self.folder, self.spec, self.epoch)
        self.model: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]

    @rule(rows=st.lists(records, max_size=6), arrow=st.booleans())
    def append(self, rows: list[dict[str, Any]], arrow: bool) -> None:
        """Append rows or the same as Arrow."""
        batch = self.depot.codec.from_rows(rows).batch
        appended = self.depot.append(batch if arrow else rows)
        assert appended.count == len(rows)
        for partition, (start, end) in appended.offsets.items():
            assert start == len(self.model[partition])
            self.model[partition] += self.depot.read(partition, start, end).to_pylist()
        stored = [
            row
            for partition, (start, end) in appended.offsets.items()
            for row in self.model[partition][start:end]
        ]
        assert sorted(map(str, stored)) == sorted(map(str, batch.to_pylist()))

    @rule(rows=st.lists(records, max_size=3))
    def append_refused(self, rows: list[dict[str, Any]]) -> None:
        """A call with a bad record changes nothing."""
        try:
            self.depot.append([*rows, {"v": "bad"}])
        except RecordsRefusedError:
            return
        raise AssertionError("a bad record was taken")

    @rule(rows=st.lists(records, min_size=1, max_size=3))
    def append_on_a_failing_disk(self, rows: list[dict[str, Any]]) -> None:
        """A failed fsync changes nothing."""
        original = segment_file._datasync

        def fail(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        segment_file._datasync = fail
        try:
            self.depot.append(rows)
        except StorageError:
            return
        finally:
            segment_file._datasync = original
        raise AssertionError("an append without fsync was acknowledged")

    @rule(torn=st.binary(max_size=40), later=st.booleans())
    def reopen(self, torn: bytes, later: bool) -> None:
        """Close, leave a torn end, open again."""
        self.depot.close()
        with segments(self.folder)[-1].open("ab") as file:
            file.write(torn)
        self.epoch += later
        self.depot = Depot(self.folder, self.spec, self.epoch)

    @rule()
    def trim(self) -> None:
        """Drop what may go: at least ten of each partition stay."""
        self.depot.trim()
        kept = zip(self.depot.start_offsets(), self.model, strict=True)
        assert all(start <= max(0, len(rows) - 10) for start, rows in kept)

    @invariant()
    def same(self) -> None:
        """Writer and reader hold what the model holds."""
        reader = DepotReader(self.folder, self.spec.schema)
        for view in (self.depot, reader):
            assert view.end_offsets() == tuple(len(rows) for rows in self.model)
            for partition, rows in enumerate(self.model):
                start = view.start_offsets()[partition]
                assert view.read(partition, start, len(rows)).to_pylist() == rows[start:]

    def teardown(self) -> None:
        """Close and delete."""
        if hasattr(self, "depot"):
            self.depot.close()
        self.stack.close()


DepotMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, derandomize=True
)
TestDepotModel = DepotMachine.TestCase
