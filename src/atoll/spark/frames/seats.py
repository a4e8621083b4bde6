"""Frames of one row per task, the task's number: what every stage of tasks begins with.

On a cluster each task has a worker that it wants to run on, so that an actor meets the vnode stores
that it left there: a host, or of several workers on one host the executors of one. Spark takes the
wish from the frame's first RDD; it waits as long as ``spark.locality.wait`` says, and who is gone
is no wish at all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atoll.spark.members import members

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FRAMES_MAX = 64


class Seats:
    """The frames of one session, made when they are first asked for.

    Args:
        session: Whose frames they are.
        fixed: Whether a task wants to run on the worker of its unit: on a cluster.
    """

    def __init__(self, session: SparkSession, *, fixed: bool = False) -> None:
        self.session = session
        self.fixed = fixed
        self._lock = threading.Lock()
        self._frames: OrderedDict[tuple[tuple[str, ...], ...] | int, DataFrame] = OrderedDict()

    def tasks(self, units: Sequence[int], workers: Mapping[int, str]) -> DataFrame:
        """One Spark partition for each unit, with one row, the partition's index.

        Args:
            units: Who runs the tasks; a unit may be named several times.
            workers: The worker of each unit, by its name.
        """
        with self._lock:  # attempts run while another placement is got ready
            return self._tasks(units, workers)

    def _tasks(self, units: Sequence[int], workers: Mapping[int, str]) -> DataFrame:
        count = len(units)
        key = self._places([workers[unit] for unit in units]) if self.fixed else count
        if key not in self._frames:
            self._frames[key] = (
                _seated(self.session, key)
                if isinstance(key, tuple)
                else self.session.range(0, count, 1, count)
            )
            while len(self._frames) > _FRAMES_MAX:
                self._frames.popitem(last=False)
        return self._frames[key]

    def _places(self, workers: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Where Spark shall run each task; of a worker that is not there, what it is called."""
        known = members(self.session)
        return tuple(known[each].places if each in known else (each,) for each in workers)


def _seated(session: SparkSession, places: Sequence[Sequence[str]]) -> DataFrame:
    """Through Scala's ``SparkContext.makeRDD`` with preferred locations, which Python lacks."""
    from pyspark.sql import DataFrame

    context = session.sparkContext
    jvm: Any = context._jvm  # noqa: SLF001 - no public way
    gateway: Any = context._gateway  # noqa: SLF001 - no public way
    seats = []
    for index, wished in enumerate(places):
        cells = gateway.new_array(jvm.java.lang.Object, 1)
        cells[0] = index
        row = jvm.org.apache.spark.sql.RowFactory.create(cells)
        seats.append(jvm.scala.Tuple2(row, _scala(jvm, wished)))
    rows = jvm.java.lang.Class.forName("org.apache.spark.sql.Row")
    tag = jvm.scala.reflect.ClassTag.apply(rows)
    rdd = context._jsc.sc().makeRDD(_scala(jvm, seats), tag)  # noqa: SLF001 - no public way
    columns = jvm.org.apache.spark.sql.types.StructType.fromDDL("id int")
    plain: Any = session
    return DataFrame(plain._jsparkSession.createDataFrame(rdd.toJavaRDD(), columns), session)  # noqa: SLF001 - no public way


def _scala(jvm: Any, items: Sequence[Any]) -> Any:
    """A Scala sequence."""
    collected = jvm.java.util.ArrayList()
    for each in items:
        collected.add(each)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(collected).toSeq()
