"""Arrow batches in, Arrow batches out: ``stream.map_batches(function, emits=...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import AtollError, UserCodeError
from atoll.topology.operator import BatchOperator
from atoll.topology.usercode import blame, is_rejectable

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class MapBatches(BatchOperator):
    """Calls a Python function once per task with an iterator of ``pyarrow.RecordBatch``."""

    makes: ClassVar[Makes] = "free"
    sees_batches: ClassVar[bool] = True

    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    emitted: pa.Schema

    @property
    def sees_records(self) -> bool:
        """Its function may raise."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """What ``emits=`` declared."""
        return self.emitted

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The user's iterator, each batch checked against ``emits=``.

        Where bad rows are set aside, all batches are held: when the function raises it is called
        again on single rows, to find those that it raises on, and then on all the others.
        """
        if rejects is None:
            yield from self._called(batches)
            return
        held = list(batches)
        try:
            made = list(self._called(iter(held)))
        except Exception as error:
            if not is_rejectable(error):
                raise
            good = self._good(held, rejects)
            if sum(map(len, good)) == sum(map(len, held)):
                raise
            made = list(self._called(iter(good)))
        yield from made

    def _called(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the function makes of the batches, with origins where rows correspond."""
        from atoll.steps.rows.calls import Feed
        from atoll.topology.rows import with_origins

        feed = Feed(batches)
        try:
            for batch in self.function(iter(feed)):
                checked = self._checked(batch)
                yield with_origins(checked, feed.origins_of(checked.num_rows))
        except Exception as error:
            blamed = blame(self, None, feed.between(), error)
            if blamed is error:
                raise
            raise blamed from error

    def _good(self, batches: list[pa.RecordBatch], rejects: Rejects) -> list[pa.RecordBatch]:
        """The batches without the rows that raise alone; those are rejected."""
        import pyarrow as pa

        from atoll.topology.rows import rows_of, without_origins

        good = []
        for batch in batches:
            kept = []
            for at in range(batch.num_rows):
                single = batch.slice(at, 1)
                try:
                    list(self._called(iter([single])))
                except AtollError as error:
                    if not is_rejectable(error):
                        raise
                    plain, origins = without_origins(single)
                    origin = None if origins is None else origins[0].as_py()
                    rejects.add(self, next(rows_of(plain)), origin, error)
                else:
                    kept.append(at)
            good.append(batch.take(pa.array(kept, pa.int64())))
        return good

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from atoll.aggregates.kernels.types import exact_cast
        from atoll.ddl import columns_in_words

        try:
            columns = [exact_cast(batch.column(f.name), f.type) for f in self.emitted]
            return pa.RecordBatch.from_arrays(columns, schema=self.emitted)
        except (KeyError, AttributeError, pa.ArrowException) as error:
            raise UserCodeError(
                f"a batch emitted by map_batches does not fit what it declares: {error}",
                hint=f"emit pyarrow.RecordBatch with the columns {columns_in_words(self.emitted)}",
                operator=self.title,
                declared=self.place,
            ) from error
