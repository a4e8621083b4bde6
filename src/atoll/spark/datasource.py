"""``spark.read.format("atoll")``: a whole PState as a DataFrame, as of the last commit.

Options: ``root``, ``module``, ``pstate``; ``field`` to choose among the values of a struct whose
fields are stored apart (dotted where nested); ``groups``, into how many Spark partitions the
vnodes are divided. Unless it is given, a Spark partition reads what one parallel unit owns when the
read is planned. The commit is chosen then, too, so all Spark partitions see the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from atoll.errors import DamageError, NotFoundError, UsageError
from atoll.placement.mapping import Mapping
from atoll.spark.analysis import spark_schema
from atoll.storage.roots import open_store
from atoll.views.connect import connect
from atoll.views.placed import mapping_now
from atoll.views.tables import entry_schema, read_entries

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from atoll.views.readable import ReadablePState

__all__ = ["AtollDataSource"]

_GROUPS = 4
"""Where nobody says who owns what."""


@dataclass
class _VnodeGroup(InputPartition):
    """The vnodes that one Spark partition reads, and the commit that all of them show."""

    vnodes: tuple[int, ...]
    commit: int
    timeline: int


class AtollDataSource(DataSource):
    """Registered by Atoll's own sessions; elsewhere: ``spark.dataSource.register(...)``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "atoll"

    def schema(self) -> StructType:
        """Keys and value, in the types that the PState's schema says."""
        found = _Source(self.options)
        return spark_schema(entry_schema(found.pstate.spec, found.position))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the schema is ours
        """A reader of the whole PState."""
        return _Reader(dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Groups of vnodes, all at the last commit."""
        found = _Source(self.options)
        spec = found.pstate.spec
        view = found.pstate.view()
        return [
            _VnodeGroup(vnodes, view.commit_id, view.timeline)
            for vnodes in _divided(spec.vnode_count, self.options)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries of one group."""
        assert isinstance(partition, _VnodeGroup)
        found = _Source(self.options)
        try:
            view = found.pstate.view_at(partition.commit, partition.timeline)
            yield from read_entries(found.pstate.spec, view, partition.vnodes, found.position)
        except (DamageError, NotFoundError) as error:
            last = found.pstate.view().commit_id
            try:
                found.pstate.as_of(partition.commit)
            except UsageError:
                raise UsageError(
                    f"microbatch {partition.commit} was dropped while it was read: the last one "
                    f"is {last} by now",
                    hint="raise pstate.history.seconds above the time that the read takes",
                    pstate=found.pstate.name,
                ) from error
            raise


def _divided(vnode_count: int, options: dict[str, str]) -> list[tuple[int, ...]]:
    """The vnodes of each Spark partition."""
    if "groups" not in options:
        store = open_store(options["root"])
        mapping = mapping_now(store, options["module"], options["pstate"])
        if mapping is not None and len(mapping.units) == vnode_count:
            return [mapping.vnodes(unit) for unit in mapping.unit_ids()]
    groups = max(1, min(int(options.get("groups", _GROUPS)), vnode_count))
    return list(Mapping.even(vnode_count, range(groups)).groups(groups))


class _Source:
    """The PState that the options name."""

    def __init__(self, options: Any) -> None:
        missing = [name for name in ("root", "module", "pstate") if not options.get(name)]
        if missing:
            raise UsageError(
                f"reading the format atoll needs the option {missing[0]!r}",
                hint="set root, module and pstate",
            )
        module = connect(options["root"], options["module"])
        self.pstate: ReadablePState = module.pstate(options["pstate"])
        field = options.get("field") or ""
        self.position = tuple(field.split(".")) if field else ()
