"""Mistakes that only Spark or a row can show: refused at deploy, or told by the status."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import atoll
from atoll import List, Map, Set, agg
from atoll.errors import DeclarationError, DeployError, TopologyFailedError

KV = "k string, v long, f double, tags array<string>"


def _line():
    """The caller's line, as errors name it."""
    frame = inspect.currentframe().f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


class Mistake:
    """A module of one step, and what its refusal says."""

    def __init__(self, name):
        self.module = atoll.Module(name)
        self.depot = self.module.depot("rows", KV)
        self.mb = self.module.microbatch("mb", vnode_count=4)
        self.source = self.mb.source(self.depot)
        self.sums = self.mb.pstate("sums", Map(str, int))

    def refused(self, cluster, place, *words):
        """Deploying names the place and the words, and leaves nothing behind."""
        with pytest.raises(DeclarationError) as caught:
            cluster.deploy(self.module)
        error = caught.value
        assert error.context.get("declared") == place, error
        assert error.hint, error
        for word in words:
            assert word in str(error), error
        assert self.module.name not in cluster.apps
        assert not (cluster.root / self.module.name).exists()


def test_columns_that_are_not_there(cluster):
    """In column steps Spark says so, in keys and aggregates Atoll; both name what is there."""
    cases = [
        lambda m: m.source.select("k", "w"),
        lambda m: m.source.where("w > 1"),
        lambda m: m.source.with_columns(x="upper(w)"),
        lambda m: m.source.explode("w"),
        lambda m: m.source.hash_by("w"),
        lambda m: m.source.aggregate(m.sums["w"], agg.count()),
        lambda m: m.source.aggregate(m.sums["k"], agg.sum("w")),
        lambda m: m.source.aggregate(m.sums["upper(w)"], agg.sum("v")),
        lambda m: m.source.lookup(m.sums["w"], "x"),
        lambda m: m.source.process(lambda row, sums: None, key="w", states=[m.sums]),
        lambda m: m.source.select("k").aggregate(m.sums["k"], agg.sum("v")),
        lambda m: m.source.transform(lambda frame: frame.select("w")),
    ]
    for number, case in enumerate(cases):
        mistake = Mistake(f"missing-{number}")
        case(mistake)
        line = case.__code__.co_firstlineno
        there = "k" if number == 10 else "k, v, f, tags"
        wanted = "'v'" if number == 10 else "w"
        mistake.refused(cluster, f"test_deploy_errors.py:{line}", wanted, there)


def test_sql_that_does_not_parse_or_type(cluster):
    """Spark's own words, with the place."""
    cases = [
        lambda m: m.source.select("upper(k"),
        lambda m: m.source.where("v >"),
        lambda m: m.source.with_columns(x="no_such_function(v)"),
        lambda m: m.source.where("v"),
        lambda m: m.source.explode("k"),
        lambda m: m.source.explode("tags", "a", "b"),
        lambda m: m.source.select("k", "v AS k"),
        lambda m: m.source.union(m.source.select("k", "v")),
        lambda m: m.source.transform(lambda frame: frame.groupBy("k")),
        lambda m: m.source.transform(lambda frame: 1 // 0),
    ]
    for number, case in enumerate(cases):
        mistake = Mistake(f"sql-{number}")
        case(mistake)
        mistake.refused(cluster, f"test_deploy_errors.py:{case.__code__.co_firstlineno}")


def test_types_that_do_not_fit(cluster):
    """Keys, set elements, aggregates and columns that would be there twice."""
    cases = [
        (lambda m: m.source.aggregate(m.sums["v"], agg.count()), "long", "key is str"),
        (lambda m: m.source.lookup(m.sums["v"], "x"), "long", "key is str"),
        (lambda m: m.source.process(lambda r, s: None, key="f", states=[m.sums]), "double", "str"),
        (lambda m: m.source.aggregate(m.sums["k"], agg.sum("k")), "needs numbers", "sums"),
        (lambda m: m.source.aggregate(m.sums["k"], agg.sum("f")), "does not fit", "sums"),
        (lambda m: m.source.aggregate(m.sums["k"], agg.max("k")), "does not fit", "sums"),
        (lambda m: m.source.aggregate(m.sums["k"], agg.avg("v")), "gives a float", "float there"),
        (lambda m: m.source.lookup(m.sums["k"], "v"), "two columns of one name", "another column"),
    ]
    for number, (case, *words) in enumerate(cases):
        mistake = Mistake(f"types-{number}")
        case(mistake)
        mistake.refused(cluster, f"test_deploy_errors.py:{case.__code__.co_firstlineno}", *words)

    mistake = Mistake("types-set")
    mistake.source.aggregate(mistake.mb.pstate("s", Set(int)), agg.collect_set("k"))
    mistake.refused(cluster, f"test_deploy_errors.py:{_before(2)}", "string", "int")
    mistake = Mistake("types-list")
    mistake.source.aggregate(mistake.mb.pstate("l", List(int)), agg.collect_list("k"))
    mistake.refused(cluster, f"test_deploy_errors.py:{_before(2)}", "string")
    mistake = Mistake("types-old")
    mistake.sums.changes("old")
    mistake.refused(cluster, f"test_deploy_errors.py:{_before(2)}", "two columns of one name")


def _before(lines):
    """The line so many above the caller's call, which began on the line before it."""
    return inspect.currentframe().f_back.f_lineno - lines + 1


def test_topology_mistakes(cluster):
    """What is seen only when the topology is whole names the topology's own line."""
    mistake = Mistake("circle")
    place = _next(_line())
    mistake.sums.changes("k").aggregate(mistake.sums["k"], agg.sum("new"))
    mistake.refused(cluster, place, "each other's changes")
    module = atoll.Module("sourceless")
    place = _next(_line())
    module.microbatch("mb")
    with pytest.raises(DeclarationError, match="has no source") as caught:
        cluster.deploy(module)
    assert caught.value.context["declared"] == place
    for options in ({"depot.microbatch.max.recrods": 1}, {"depot.microbatch.max.records": 0}):
        module = atoll.Module("options")
        place = _next(_line())
        mb = module.microbatch("mb", options=options)
        mb.source(module.depot("d", "a int"))
        with pytest.raises(DeclarationError, match=r"depot\.microbatch\.max") as caught:
            cluster.deploy(module)
        assert caught.value.context["declared"] == place
    module = atoll.Module("initial")
    mb = module.microbatch("mb")
    mb.source(module.depot("d", "a int"))
    place = _next(_line())
    mb.pstate("total", int, initial="zero")
    with pytest.raises(DeclarationError, match="initial value") as caught:
        cluster.deploy(module)
    assert caught.value.context["declared"] == place


def _next(place):
    file, _, line = place.rpartition(":")
    return f"{file}:{int(line) + 1}"


OPTIONS = {
    "topology.microbatch.retry.max.attempts": 2,
    "topology.microbatch.retry.delay.max.millis": 1,
}


def _risky(flag):
    def function(row, *states):
        if Path(flag).exists() and row.v == 2:
            raise ValueError(f"two is too many: {row.k}")
        return {"k": row.k, "v": row.v}

    return function


def _risky_batches(flag):
    def function(batches):
        for batch in batches:
            if Path(flag).exists():
                raise ValueError("two is too many: b")
            yield batch

    return function


@pytest.mark.parametrize("step", ["process", "map", "map_where", "flat_map", "map_batches"])
def test_a_function_that_raises(cluster, tmp_path, step):  # noqa: PLR0915  # one story
    """The status names operator, row and line; the state stays; after mending it goes on."""
    flag = tmp_path / "flag"
    row_ddl = "k string, v long"
    module = atoll.Module("raising")
    depot = module.depot("rows", row_ddl, partitions=1)
    mb = module.microbatch("mb", vnode_count=4, options=OPTIONS)
    source = mb.source(depot)
    sums = mb.pstate("sums", Map(str, int))
    source.aggregate(mb.pstate("count", int), agg.count())
    risky = _risky(str(flag))
    match step:
        case "process":

            def add(row, state):
                state[row.k] = state.get(row.k, 0) + row.v
                risky(row)

            source.process(add, key="k", states=[sums])
        case "map":
            source.map(risky, emits=row_ddl).aggregate(sums["k"], agg.sum("v"))
        case "map_where":
            source.map(risky, emits=row_ddl).where("v > 0").aggregate(sums["k"], agg.sum("v"))
        case "flat_map":
            many = source.flat_map(lambda row: [risky(row)], emits=row_ddl)
            many.aggregate(sums["k"], agg.sum("v"))
        case "map_batches":
            batches = source.map_batches(_risky_batches(str(flag)), emits=row_ddl)
            batches.aggregate(sums["k"], agg.sum("v"))
    app = cluster.deploy(module)
    topology = app.topology("mb")
    app.depot("rows").append([{"k": "a", "v": 1}])
    topology.wait_processed(1)

    flag.touch()
    app.depot("rows").append([{"k": "a", "v": 5}, {"k": "b", "v": 2}])
    with pytest.raises(TopologyFailedError, match="two is too many"):
        topology.wait_processed(3)
    status = topology.status()
    assert (status["state"], status["committed"], status["version"]) == ("failed", 1, 2)
    assert status["lag"] == {"rows": [2]}
    error = status["error"]
    assert error["code"] == "E-USER-CODE"
    assert "ValueError" in error["message"]
    assert "two is too many: b" in error["message"]
    assert error["hint"]
    assert error["context"]["operator"] == step.removesuffix("_where")
    assert error["context"]["declared"].startswith("test_deploy_errors.py:")
    file, _, line = error["context"]["line"].rpartition(":")
    assert Path(file).name == "test_deploy_errors.py"
    assert "raise ValueError" in Path(file).read_text().splitlines()[int(line) - 1]
    if step != "map_batches":
        assert "k='b'" in error["context"]["row"]
    assert app.pstate("sums").get("a") == 1
    assert app.pstate("sums").get("b") is None
    assert app.pstate("count").get() == 1

    flag.unlink()
    topology.resume()
    topology.wait_processed(3)
    assert topology.status()["error"] is None
    assert dict(app.pstate("sums").select(atoll.path.all())) == {"a": 6, "b": 2}
    assert app.pstate("count").get() == 3


def test_other_failures_of_rows(cluster):
    """What is emitted wrongly, null keys, and SQL that fails on a value."""

    def check(name, build, rows, code, *words):
        module = atoll.Module(name)
        depot = module.depot("rows", KV)
        mb = module.microbatch("mb", vnode_count=4, options=OPTIONS)
        build(mb.source(depot), mb)
        app = cluster.deploy(module)
        app.depot("rows").append(rows)
        with pytest.raises(TopologyFailedError) as caught:
            app.topology("mb").wait_processed(len(rows))
        error = app.topology("mb").status()["error"]
        assert error["code"] == code, error
        for word in words:
            assert word in f"{error}", error
        assert caught.value.hint
        app.close()

    def sums(mb):
        return mb.pstate("sums", Map(str, int))

    def wrong_type(row):
        return {"k": row.k, "v": "text"}

    def wrong_column(row):
        return {"k": row.k, "w": 1}

    def wrong_key(row, state):
        state[3] = 1

    def wrong_value(row, state):
        state[row.k] = "text"

    one, null = [{"k": "a", "v": 1}], [{"k": "a", "v": 1}, {"v": 1}]
    check(
        "wrong-type",
        lambda s, mb: s.map(wrong_type, emits="k string, v long").aggregate(
            sums(mb)["k"], agg.sum("v")
        ),
        one, "E-USER-CODE", "wrong type", "'operator': 'map'",
    )  # fmt: skip
    check(
        "wrong-column",
        lambda s, mb: s.process(wrong_column_process, key="k", states=[sums(mb)], emits="k string")
        .aggregate(mb.pstate("n", int), agg.count()),
        one, "E-USER-CODE", "['w']", "'operator': 'process'",
    )  # fmt: skip
    for name, function in (("wrong-key", wrong_key), ("wrong-value", wrong_value)):
        check(
            name,
            lambda s, mb, f=function: s.process(f, key="k", states=[sums(mb)]),
            one, "E-STATE", "'operator': 'process'", "'line'", "k='a'", "test_deploy_errors.py",
        )  # fmt: skip
    where = "filter such rows out with where(...)"
    check(
        "null-key",
        lambda s, mb: s.aggregate(sums(mb)["k"], agg.sum("v")),
        null, "E-DATA", "null", where, "'declared': 'test_deploy_errors.py", "columns are k",
    )  # fmt: skip
    check(
        "null-second-key",
        lambda s, mb: s.aggregate(
            mb.pstate("nested", Map(int, Map(str, int)))["v"]["k"], agg.sum("v")
        ),
        null, "E-DATA", "null", where, "'declared': 'test_deploy_errors.py",
    )  # fmt: skip
    check(
        "null-process-key",
        lambda s, mb: s.process(wrong_key, key="k", states=[sums(mb)]),
        null[1:], "E-DATA", "null", where, "'operator': 'process'",
    )  # fmt: skip
    check(
        "overflow",
        lambda s, mb: s.aggregate(mb.pstate("total", int), agg.sum("v")),
        [{"k": "a", "v": 2**62}] * 3, "E-DATA", "'operator': 'aggregate'", "'declared'",
    )  # fmt: skip
    check(
        "division",
        lambda s, mb: s.with_columns(v="v div 0").aggregate(sums(mb)["k"], agg.sum("v")),
        one, "E-DATA", "DIVIDE_BY_ZERO", "v div 0",
    )  # fmt: skip


def wrong_column_process(row, state):
    """Yields a column that emits= does not have."""
    yield {"k": row.k, "w": 1}


def test_what_is_fixed_for_life(cluster):
    """Another vnode count, schema or partition count is refused; what runs goes on."""

    def module(vnodes=4, ddl="k string, v long", value=int, partitions=2, pstate="sums"):
        made = atoll.Module("lasting")
        depot = made.depot("rows", ddl, partitions=partitions)
        mb = made.microbatch("mb", vnode_count=vnodes)
        mb.source(depot).aggregate(mb.pstate(pstate, Map(str, value))["k"], agg.sum("v"))
        return made

    app = cluster.deploy(module())
    app.depot("rows").append([{"k": "a", "v": 1}])
    app.topology("mb").wait_processed(1)
    for change, words in [
        ({"vnodes": 8}, "the vnode count is fixed: 4"),
        ({"ddl": "k string, v int"}, "the schema of a depot is fixed"),
        ({"partitions": 3}, "partitions are fixed: 2"),
        ({"value": float}, "pstate 'sums': schema"),
        ({"pstate": "totals"}, "pstate 'sums': no longer declared"),
    ]:
        with pytest.raises(DeployError, match=words) as caught:
            cluster.deploy(module(**change))
        assert caught.value.hint
    app.depot("rows").append([{"k": "a", "v": 2}])
    app.topology("mb").wait_processed(2)
    assert app.pstate("sums").get("a") == 3
    again = cluster.deploy(module())
    again.depot("rows").append([{"k": "a", "v": 4}])
    again.topology("mb").wait_processed(3)
    assert again.pstate("sums").get("a") == 7
