"""Column steps whose expressions are certified run in the tasks: rows, accounts, errors, ways."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import atoll
from atoll import Map, agg
from atoll.columns.reading import computed
from atoll.columns.tree import RowError, Rows
from atoll.columns.types import NotCertifiedError
from atoll.errors import DeclarationError, TopologyFailedError
from atoll.steps.columns.computing import computing
from atoll.steps.columns.schemas import column_ways
from atoll.steps.columns.with_columns import WithColumns
from atoll.testing import TopologyTestDriver

ROW = "k string, v long, d double"
OPTIONS = {"topology.microbatch.retry.delay.max.millis": 1}


def module_of(make, columns="auto", dead=False, name="computing"):
    """Sums of what ``make`` makes of a depot's rows."""
    module = atoll.Module(name)
    rows = module.depot("rows", ROW, partitions=2)
    letter = module.dead_letter_depot("dead") if dead else None
    mb = module.microbatch(
        "mb", vnode_count=4, dead_letter=letter, options=OPTIONS, columns=columns
    )
    sums = mb.pstate("sums", Map(str, int))
    make(mb.source(rows)).aggregate(sums["k"], agg.sum("v"))
    return module


def usual(rows):
    """Steps of every sort, between Python's."""
    return (
        rows.with_columns(w="v * 2 + 1", k="upper(k)")
        .where(lambda row: row.v < 90)
        .where("w % 3 = 0")
        .select("k", "w AS v", "if(v > 3, 10 div (v - 3), 0) AS x")
        .where("x IS NOT NULL")
    )


@pytest.mark.parametrize("engine", ["inline", pytest.param("spark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("columns", ["auto", "spark"])
def test_both_ways_make_the_same(engine, columns):
    """Rows, and what each step took and dropped; the status says which way each step went."""
    if (engine, columns) == ("inline", "spark"):
        pytest.skip("refused")
    records = [{"k": "ab"[n % 2], "v": n, "d": n / 2} for n in range(100)]
    with TopologyTestDriver(module_of(usual, columns), engine=engine) as driver:
        driver.depot("rows").append(records)
        driver.run_until_idle()
        expected = dict.fromkeys("AB", 0)
        for n in range(90):
            if (2 * n + 1) % 3 == 0:
                expected["AB"[n % 2]] += 2 * n + 1
        assert driver.pstate("sums").get() == expected
        status = driver.app.topology("mb").status()
        taken = "tasks" if columns == "auto" else "spark"
        assert [each["way"] for each in status["columns"]] == [taken] * 4
        if columns == "auto":
            counts = {each["step"].split()[0]: each for each in status["rows"]}
            assert counts["select"]["rows"] == counts["select"]["out"]
            dropped = [e["dropped"] for e in status["rows"] if e["step"].startswith("where")]
            assert dropped[:2] == [10, 60]


def test_no_query_of_sparks_runs_in_a_microbatch():
    """A topology of certified steps is run by the calling process where Spark may be had."""
    with TopologyTestDriver(module_of(usual), engine="auto") as driver:
        driver.depot("rows").append([{"k": "a", "v": 1, "d": 0.0}])
        driver.run_until_idle()
        assert driver.app.topology("mb").status()["jobs"] == ["inline"]
        assert driver.cluster._engine._spark._session is None


def failing(rows):
    """An overflow, a cast and a division."""
    return rows.with_columns(w="v * 4").where("100 div v < 101").select("k", "cast(d AS int) AS v")


BAD = [
    {"k": "a", "v": 2**62, "d": 1.0},
    {"k": "b", "v": 0, "d": 1.0},
    {"k": "c", "v": 1, "d": float("nan")},
]
SAID = {
    "a": ("with_columns", "w = v * 4 fails where v=4611686018427387904: [ARITHMETIC_OVERFLOW]"),
    "b": ("where", "100 div v < 101 fails where v=0: [DIVIDE_BY_ZERO]"),
    "c": ("select", "cast(d AS int) AS v fails where d=nan: [CAST_OVERFLOW]"),
}


def test_rows_that_cannot_be_computed_are_set_aside():
    """Once each, by step, with their records; the others are summed."""
    module = module_of(failing, dead=True)
    with TopologyTestDriver(module, engine="inline", parallelism=2) as driver:
        good = [{"k": "g", "v": n, "d": float(n)} for n in range(1, 30)]
        driver.depot("rows").append([*good[:10], *BAD, *good[10:]])
        driver.run_until_idle()
        assert driver.pstate("sums").get() == {"g": sum(range(1, 30))}
        assert driver.depot("dead").end_offsets() == (3,)
        dead = driver.depot("dead").read(0, 0, 3).to_pylist()
        assert {each["row"][7]: (each["operator"], each["error"]) for each in dead} == SAID
        rows = driver.depot("rows")
        for each in dead:
            at, offset = each["depot_partition"], each["record_offset"]
            assert rows.read(at, offset, offset + 1).to_pylist()[0]["k"] == each["row"][7]
        aside = [each["rejected"] for each in driver.app.topology("mb").status()["rows"]]
        assert aside[:3] == [1, 1, 1]


def test_without_a_dead_letter_depot_the_first_ends_the_attempt():
    """With the step, the row and the record, in the second attempt."""
    with TopologyTestDriver(module_of(failing), engine="inline") as driver:
        driver.depot("rows").append([{"k": "g", "v": 1, "d": 2.0}, *BAD[1:2]])
        with pytest.raises(TopologyFailedError) as caught:
            driver.run_until_idle()
        assert SAID["b"][1] in caught.value.message
        assert {"depot", "record_offset", "row"} <= set(caught.value.context)
        assert driver.app.topology("mb").status()["version"] == 2


def graph_of(make, columns="auto"):
    """The graph of a topology, and the columns after its steps."""
    module = module_of(make, columns)
    graph = module.topologies["mb"].graph
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("d", pa.float64())])
    return graph, dict.fromkeys(graph.operators, schema)


def ways_of(make, columns="auto", other=""):
    """Which way each column step goes, by its word."""
    graph, schemas = graph_of(make, columns)
    return {each.step: (each.way, each.why) for each in column_ways(graph, schemas, other).values()}


def test_steps_beside_one_of_sparks_go_with_it():
    """Behind one all do; before one those that can fail, which would tell of a row twice."""
    assert ways_of(lambda rows: rows.where("v > 1").distinct()) == {
        "where": ("tasks", ""),
        "distinct": ("spark", "distinct is a step of Spark's"),
    }
    beside = "a step of Spark's reads or makes its rows"
    assert ways_of(lambda rows: rows.where("v + 1 > 1").distinct())["where"] == ("spark", beside)
    assert ways_of(lambda rows: rows.distinct().where("v > 1"))["where"] == ("spark", beside)


def test_a_topology_can_demand_one_way():
    """Where it cannot be had, the deployment says why."""
    assert ways_of(lambda rows: rows.where("v > 1"), "spark")["where"][0] == "spark"
    assert (
        ways_of(lambda rows: rows.where("v > 1"), other="ANSI is off")["where"][1] == "ANSI is off"
    )
    with pytest.raises(DeclarationError, match="needs Spark: cbrt is not among what is certified"):
        ways_of(lambda rows: rows.where("cbrt(d) > 1"), "tasks")
    with pytest.raises(DeclarationError, match="columns cannot be run by 'both'"):
        module_of(usual, "both")
    with (
        TopologyTestDriver(module_of(usual), engine="inline") as driver,
        pytest.raises(DeclarationError, match="declared with columns='spark'"),
    ):
        driver.cluster.deploy(module_of(usual, "spark", name="other"))


@pytest.mark.parametrize(
    "text",
    [
        "v NOT LIKE 'a' ESCAPE '!'",
        "try_cast(k AS int)",
        "k LIKE 'a\\\\%'",
        "v | 1 & 2",
        "v & 1 + 1",
        "k || 'a' 'b' = 'ab'",
        "rand()",
        "sum(v)",
        "nothing + 1",
        "v + d + k",
        "cast(d AS string)",
        "cast(k AS float)",
        "BETWEEN",
        "v = k",
        "current_date()",
        "v -- a comment",
        "${v}",
        "CASE WHEN k THEN 1 END",
        "substr(k, v)",
        "regexp_extract(k, '(.)\\\\1', 1)",
        "k RLIKE '[^a]$'",
        "k RLIKE '(a)\\1'",
        "k RLIKE '(?i)a'",
        "round(d, 2)",
        "pow(d, 2)",
        "split(k, '')",
        "date_format(k, 'y')",
        "NULL",
    ],
)
def test_what_is_not_certified_is_left_to_spark(text):
    """Also what sqlglot may read otherwise than Spark."""
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("d", pa.float64())])
    with pytest.raises(NotCertifiedError):
        computed(text, schema)


@pytest.mark.parametrize(
    ("text", "value", "condition"),
    [
        ("v + 1", 2**63 - 1, "ARITHMETIC_OVERFLOW"),
        ("1 / v", 0, "DIVIDE_BY_ZERO"),
        ("1 % v", 0, "REMAINDER_BY_ZERO"),
        ("cast(v AS int)", 2**40, "CAST_OVERFLOW"),
    ],
)
def test_errors_have_sparks_names(text, value, condition):
    """So that who knows Spark's finds out what is meant."""
    batch = pa.RecordBatch.from_pydict({"v": pa.array([value], pa.int64())})
    with pytest.raises(RowError) as caught:
        computed(text, batch.schema).of(Rows(batch))
    assert caught.value.condition == condition


def test_a_step_is_shipped_with_its_program():
    """A tree of nodes is data and functions of modules."""
    graph, schemas = graph_of(
        lambda rows: rows.with_columns(w="abs(v) & 3", x="k LIKE '%a' OR NOT d > 1")
    )
    (step,) = [each for each in graph.operators if isinstance(each, WithColumns)]
    made = pickle.loads(pickle.dumps(computing(step, schemas[step]).nodes))
    batch = pa.RecordBatch.from_pydict({"k": ["a"], "v": [7], "d": [0.5]})
    assert [each.of(Rows(batch)).to_pylist() for each in made] == [["a"], [7], [0.5], [3], [True]]
