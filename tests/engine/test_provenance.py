"""Numbers of records and back, and which rows carry them: none that no user function sees."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import atoll
from atoll import Map, agg
from atoll.engine.binding.bind import bind
from atoll.engine.binding.pstates import bind_pstates
from atoll.engine.exchange.feeding import feed, packers_of
from atoll.engine.exchange.packing import unpack
from atoll.engine.exchange.provenance import Records, first_numbers, locating
from atoll.engine.program import JobSpec
from atoll.errors import DeclarationError, UserCodeError
from atoll.placement.mapping import Mapping
from atoll.placement.placement import Placement
from atoll.steps.columns.schemas import python_only, schemas_of
from atoll.storage.folders import RootFolders
from atoll.topology.jobs import cut_into_jobs
from atoll.topology.rows import ORIGIN

ranges = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=4),
)


@given(ranges)
def test_every_record_has_its_number(sizes):
    """Depots by name, then depot partitions, then offsets; beyond them there is nothing."""
    plan = {d: [(start, start + count) for start, count in parts] for d, parts in sizes.items()}
    expected = [
        (depot, partition, offset)
        for depot in sorted(plan)
        for partition, (start, end) in enumerate(plan[depot])
        for offset in range(start, end)
    ]
    records = Records(plan)
    assert [records.find(number) for number in range(len(expected))] == expected
    assert records.find(len(expected)) is records.find(-1) is records.find(None) is None
    for depot, first in first_numbers(plan).items():
        mine = [number for number, record in enumerate(expected) if record[0] == depot]
        assert not mine or mine[0] == first


def test_errors_learn_the_record_or_the_range():
    """One record exactly; of a batch the first and the last, also over partitions."""
    program = SimpleNamespace(topology="mb")
    spec = SimpleNamespace(id=7, ranges={"rows": [(10, 13), (5, 9)]})

    def context(**where):
        with pytest.raises(UserCodeError) as caught, locating(program, spec):
            raise UserCodeError("it broke", line="x.py:1", **where)
        assert (caught.value.context["topology"], caught.value.context["microbatch"]) == ("mb", 7)
        assert "origin" not in caught.value.context
        return caught.value.context

    found = context(origin=4)
    assert (found["depot"], found["depot_partition"], found["record_offset"]) == ("rows", 1, 6)
    assert context(origin=(3, 5))["record_offset"] == "5 to 7"
    assert context(origin=(2, 5))["record_offset"] == "12 to rows[1]:7"
    assert "depot" not in context()
    assert "depot" not in context(origin=99)


def _program(declare, tmp_path):
    module = atoll.Module("m")
    rows = module.depot("rows", "k long, v long")
    mb = module.microbatch("mb", vnode_count=4)
    declare(mb, mb.source(rows))
    cut = cut_into_jobs(mb.graph)
    schemas = schemas_of(mb.graph, python_only)
    mappings = {name: Mapping.even(4, (0, 1)) for name in mb.graph.pstates}
    program = bind(bind_pstates(mb.graph, schemas), cut, schemas, RootFolders(tmp_path))
    return program.placed(Placement(1, (0, 1), mappings))


def _packed(program):
    """The columns that each step of the first job packs, fed with what reading would give it."""
    spec = JobSpec(1, 1, 1, 0, 0, ())
    packers = packers_of(program, spec)
    batch = pa.RecordBatch.from_pydict({"k": [1, 2], "v": [3, 4]})
    origin = program.jobs[0].chains[0].origin
    if origin in program.tracked:
        batch = batch.append_column(ORIGIN, pa.array([0, 1]))
    feed(program, spec, [batch], program.jobs[0].chains, packers)
    return {
        tag: unpack(blob).column_names
        for tag, packer in packers.items()
        for _, blob in packer.finish()
    }


def test_aggregates_pay_nothing(tmp_path):
    """Where no user function sees a row nothing is numbered, and nothing more is packed."""

    def declare(mb, rows):
        rows.aggregate(mb.pstate("sums", Map(int, int))["k"], agg.sum("v"))

    program = _program(declare, tmp_path)
    assert program.tracked == frozenset()
    (columns,) = _packed(program).values()
    assert columns == ["__vnode", "k0", "s0"]


def test_aggregates_after_a_function_pack_nothing_more(tmp_path):
    """Only steps that call a user's function get the hidden column."""

    def declare(mb, rows):
        sums = mb.pstate("sums", Map(int, int))
        made = rows.map(lambda row: row, emits="k long, v long")
        made.aggregate(sums["k"], agg.sum("v"))
        made.process(lambda row, seen: None, key="k", states=[mb.pstate("seen", Map(int, int))])

    aggregate, process = _packed(_program(declare, tmp_path)).values()
    assert aggregate == ["__vnode", "k0", "s0"]
    assert process == ["__vnode", "k", "v", ORIGIN]


def test_rows_reported_once(tmp_path):
    """Of chains that begin alike only the first reports what their common steps reject."""

    def declare(mb, rows):
        mb.graph.dead_letter = SimpleNamespace(name="rejected")
        sums = mb.pstate("sums", Map(int, int))
        made = rows.map(lambda row: row, emits="k long, v long")
        made.aggregate(sums["k"], agg.sum("v"))
        more = made.map(lambda row: row, emits="k long, v long")
        more.aggregate(mb.pstate("counts", Map(int, int))["k"], agg.count())
        seen = mb.pstate("seen", Map(int, int))
        out = rows.process(lambda row, seen: None, key="k", states=[seen], emits="k long, v long")
        out.union(more).aggregate(mb.pstate("last", Map(int, int))["k"], agg.count())

    first, second = _program(declare, tmp_path).jobs
    by_length = {len(chain.steps): chain.repeated for chain in first.chains}
    assert by_length == {1: 0, 2: 1, 0: 0}
    assert [c.repeated for c in second.chains if len(c.steps) == 3] == [2]


def test_the_name_is_taken():
    """A user's column cannot be called like the hidden one."""
    module = atoll.Module("m")
    with pytest.raises(DeclarationError, match="keeps it for itself"):
        module.depot("rows", f"{ORIGIN} long")
    rows = module.depot("rows", "k long")
    stream = module.microbatch("mb").source(rows)
    with pytest.raises(DeclarationError, match="keeps it for itself"):
        stream.map(lambda row: row, emits=f"{ORIGIN} long")
