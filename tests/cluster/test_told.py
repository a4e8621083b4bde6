"""What somebody is told while a module runs: rows that would be lost, names, hints that fit."""

from __future__ import annotations

import pytest

import atoll
from atoll import LocalCluster, Map, Struct, agg, path, start
from atoll.errors import (
    NotFoundError,
    PathError,
    TopologyFailedError,
    UserCodeError,
    WaitTimeoutError,
)
from atoll.testing import TopologyTestDriver
from atoll.views.connect import connect


def declared(function, emits=None, *, attempts=1, **more):
    """A module with one step of process over rows of k and n, and its counts."""
    module = atoll.Module("told")
    rows = module.depot("rows", "k string, n long", partitions=1)
    mb = module.microbatch(
        "mb", vnode_count=2, options={"topology.microbatch.retry.max.attempts": attempts}
    )
    counts = mb.pstate("counts", Map(str, int))
    source = mb.source(rows, start_from=start.beginning())
    step = source.process(function, key="k", states=[counts], emits=emits, **more)
    if emits is not None:
        step.aggregate(mb.pstate("out", Map(str, int))["k"], agg.count())
    return module


def failure(tmp_path, module):
    """What the failed microbatch says."""
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "n": 1}])
        with pytest.raises(TopologyFailedError) as caught:
            driver.microbatch()
        assert driver.pstate("counts").get() == {}
        return caught.value


def yields(row, counts):
    """Yields a row."""
    counts[row.k] = 1
    yield {"k": row.k, "twice": row.n * 2.5}


def lists(row, counts):
    """Returns rows in a list."""
    counts[row.k] = 1
    return [{"k": row.k, "twice": row.n * 2.5}]


def returns(row, counts):
    """Returns a row where it should yield it."""
    counts[row.k] = 1
    return {"k": row.k}


def returns_itself(row, counts):
    """Returns the very row."""
    counts[row.k] = 1
    return row


def sets_a_timer(row, counts, timers):
    """Lets a timer be due at once."""
    timers.at(0)


def yields_from_a_timer(timer, counts, timers):
    """Yields a row when the timer is due."""
    yield {"k": timer.key}


@pytest.mark.parametrize("function", [yields, lists])
def test_rows_without_columns_are_refused(tmp_path, function):
    """Nothing that a step yields is dropped without a word; the hint names the columns."""
    error = failure(tmp_path, declared(function))
    assert "yielded a row, and the step declares no emits=" in error.message
    assert 'emits="k string, twice double"' in error.hint
    assert "test_told.py" in error.context["declared"]


def test_the_hint_for_rows_without_columns_is_followed(tmp_path):
    """With the columns that it names the rows come out."""
    with TopologyTestDriver(
        declared(yields, "k string, twice double"), root=tmp_path, engine="inline"
    ) as driver:
        driver.depot("rows").append([{"k": "a", "n": 1}])
        driver.microbatch()
        assert driver.pstate("out").get() == {"a": 1}


@pytest.mark.parametrize("function", [returns, returns_itself])
@pytest.mark.parametrize("emits", [None, "k string"])
def test_a_returned_row_is_told_from_a_yielded_one(tmp_path, function, emits):
    """It is neither lost nor taken for the names of its columns."""
    error = failure(tmp_path, declared(function, emits))
    assert "returned a row, and rows are yielded" in error.message
    assert "write yield in place of return" in error.hint


@pytest.mark.parametrize("function", [returns, yields])
def test_what_no_function_may_give_is_not_tried_again(tmp_path, function):
    """It would be the same each time; a careful attempt names the record, and that was it."""
    with TopologyTestDriver(
        declared(function, attempts=10), root=tmp_path, engine="inline"
    ) as driver:
        driver.depot("rows").append([{"k": "a", "n": 1}])
        with pytest.raises(TopologyFailedError):
            driver.microbatch()
        failed = driver.status()["failed_attempts"]
        assert [each["code"] for each in failed] == ["E-GIVEN"] * 2


def test_who_waits_is_told_why_nothing_comes(tmp_path):
    """Not only that it takes long: the last attempt's message, and what to do."""

    def fails(row, counts):
        raise ValueError(f"no {row.k}")

    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(declared(fails, attempts=1000))
        receipt = app.depot("rows").append({"k": "a", "n": 1})
        with pytest.raises(WaitTimeoutError, match="last attempt failed: ValueError"):
            app.wait(receipt, timeout_seconds=0.5)


def test_a_timer_s_rows_need_columns_too(tmp_path):
    """They come out of the same step."""
    module = declared(sets_a_timer, on_timer=yields_from_a_timer)
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "n": 1}])
        driver.microbatch()
        with pytest.raises(TopologyFailedError, match="declares no emits="):
            driver.microbatch()


def test_a_function_may_return_what_is_no_row(tmp_path):
    """Such as what a lambda happens to give: a number, None, an empty list."""
    for number, function in enumerate(
        (lambda row, counts: counts.setdefault(row.k, 7), lambda row, counts: [])
    ):
        with TopologyTestDriver(
            declared(function), root=tmp_path / str(number), engine="inline"
        ) as driver:
            driver.depot("rows").append([{"k": "a", "n": 1}])
            driver.microbatch()
            assert driver.pstate("counts").get() == ({} if number else {"a": 7})


@pytest.fixture
def served(tmp_path):
    """A module with a hidden and a private PState, and a query that fails on zero."""
    module = atoll.Module("told")
    rows = module.depot("rows", "k string, n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    source = mb.source(rows, start_from=start.beginning())
    source.aggregate(mb.pstate("shown", Map(str, int))["k"], agg.count_distinct("n"))
    source.aggregate(mb.pstate("own", Map(str, int), private=True)["k"], agg.count())
    inverse = module.query("inverse", n=int)
    inverse.map(lambda row: {"n": 1 // row.n}, emits="n long").returns("n")
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        yield driver.app, tmp_path


def test_only_what_can_be_read_is_offered(served):
    """Neither private PStates nor a step's own are listed, here or in another process."""
    app, root = served
    (hidden,) = (name for name in app._pstates if name.startswith("_"))
    for reader in (app, connect(root, "told")):
        for name in ("nope", hidden):
            with pytest.raises(NotFoundError, match=f"has no PState '{name}'") as caught:
                reader.pstate(name)
            assert caught.value.hint == "it has shown"
        with pytest.raises(NotFoundError, match="is private"):
            reader.pstate("own")


def test_a_query_that_fails_is_not_told_to_resume_a_topology(served):
    """Other arguments may do; nothing stands still."""
    app, _ = served
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        app.query("inverse", n=0)
    assert caught.value.hint.startswith("ask with other arguments")
    assert "resume" not in caught.value.hint
    assert app.query("inverse", n=1) == 1


@pytest.mark.parametrize("read", ["select", "select_one", "iterate"])
def test_a_key_in_place_of_a_path_is_told(served, read):
    """With the path to write, which is accepted."""
    app, _ = served
    with pytest.raises(PathError, match="'a' is no path") as caught:
        getattr(app.pstate("shown"), read)("a")
    assert "path.key('a')" in caught.value.hint
    assert app.pstate("shown").select(path.key("a")) == [None]


def test_which_row_wins_a_tie(tmp_path):
    """Of rows of one order the first that came for min_by, the last for max_by, over commits."""
    module = atoll.Module("ties")
    rows = module.depot("rows", "k string, n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    won = mb.pstate("won", Map(str, Struct(least=int, greatest=int)))
    mb.source(rows, start_from=start.beginning()).aggregate(
        won["k"], least=agg.min_by("n", "k"), greatest=agg.max_by("n", "k")
    )
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        for numbers in ([3, 1], [2], [9, 4]):
            driver.depot("rows").append([{"k": "a", "n": n} for n in numbers])
            driver.microbatch()
        assert driver.pstate("won").get("a") == {"least": 3, "greatest": 4}


def test_one_timer_per_millisecond(tmp_path):
    """The last one set for it stands, with its payload."""

    def sets(row, counts, timers):
        timers.at(row.n, "first")
        timers.at(row.n, "last")

    def rung(timer, counts, timers):
        counts[timer.payload] = counts.get(timer.payload, 0) + 1

    module = atoll.Module("timers")
    rows = module.depot("rows", "k string, n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=1)
    counts = mb.pstate("counts", Map(str, int))
    source = mb.source(rows, start_from=start.beginning())
    source.process(sets, key="k", states=[counts], on_timer=rung)
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "n": 5}])
        driver.run_until_idle()
        assert driver.pstate("counts").get() == {"last": 1}
