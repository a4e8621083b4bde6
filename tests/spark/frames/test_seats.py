"""Frames that number tasks: as many Spark partitions as units, whether they have homes or not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from atoll.spark.frames.seats import Seats
from atoll.spark.session import local_session

HOSTS = {4: "127.0.0.1", 7: "127.0.0.9", 9: "127.0.0.1"}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("units", [(4,), (4, 7, 9), (9, 9, 4, 7, 4)])
def test_one_row_for_each_unit_in_a_partition_of_its_own(fixed, units):
    """Numbered from 0 in the order given; also for a host that is not there."""
    seats = Seats(local_session(2), fixed=fixed)
    frame = seats.tasks(units, HOSTS)

    def seen(batches):
        from pyspark import TaskContext

        for batch in batches:
            number = TaskContext.get().partitionId()
            numbers = pa.array([number] * len(batch), pa.int32())
            yield pa.RecordBatch.from_arrays([numbers, batch.column(0)], ["at", "id"])

    rows = frame.selectExpr("cast(id AS int) AS id").mapInArrow(seen, "at int, id int").collect()
    assert sorted((row.at, row.id) for row in rows) == [(n, n) for n in range(len(units))]
    assert seats.tasks(units, HOSTS) is frame


def test_tasks_prefer_the_host_of_their_unit():
    """Spark is told so, per partition; without homes it is told nothing."""

    def preferred(fixed):
        rdd = Seats(local_session(2), fixed=fixed).tasks((4, 7, 9), HOSTS)._jdf.rdd()
        found = []
        for index in range(rdd.getNumPartitions()):
            wanted = rdd.context().getPreferredLocs(rdd, index)
            found.append([wanted.apply(n).host() for n in range(wanted.size())])
        return found

    assert preferred(fixed=True) == [["127.0.0.1"], ["127.0.0.9"], ["127.0.0.1"]]
    assert preferred(fixed=False) == [[], [], []]
