"""The same programs run against an app in its process and against one over a connection."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest

from atoll import Producer, path, start
from atoll.errors import (
    DepotError,
    NotFoundError,
    PathError,
    ProducerError,
    ReceiptError,
    RecordsRefusedError,
    UsageError,
    WaitTimeoutError,
)

_fresh = map("w{}".format, itertools.count())
DAY = dt.date(2026, 2, 28)


def word():
    """A word that no other test uses: they share one module."""
    return next(_fresh)


def test_what_there_is(app):
    """Names of the parts, and parts that are not there."""
    assert app.name == "shop"
    assert app.depots() == ["orders", "words"]
    assert app.pstates() == ["counts", "names", "takings", "total"]
    assert app.topologies() == ["days", "mb"]
    assert app.queries.names() == ["how_many"]
    for missing in (lambda: app.depot("no"), lambda: app.pstate("no"), lambda: app.topology("no")):
        with pytest.raises(NotFoundError, match="has no"):
            missing()
    with pytest.raises(NotFoundError, match="no query 'no'"):
        app.query("no")


def test_append_wait_and_read(app):
    """Every kind of data; what is read back is what was appended."""
    depot, one, two = app.depot("words"), word(), word()
    receipt = depot.append([{"word": one, "n": 3}, {"word": two, "n": 4}])
    assert (receipt.count, receipt.depot, receipt.module) == (2, "words", "shop")
    assert set(app.wait(receipt)) == {"mb"}
    counts = app.pstate("counts")
    assert (counts.get(one), counts.get(two)) == (3, 4)
    table = pa.table({"word": [one], "n": pa.array([5], pa.int64())})
    assert app.topology("mb").wait(depot.append(table).token) >= 1
    assert counts.get(one) == 8
    assert counts.after(depot.append({"word": one, "n": 1})).get(one) == 9
    assert counts.select(path.key(one)) == [9]
    assert counts.select_one(path.key(two)) == 4
    assert dict(counts.iterate(path.all()))[one] == 9
    assert app.query("how_many", word=one) == 9
    assert app.queries.ask("how_many", {"word": two}) == 4


def test_an_absent_entry_and_a_default(app):
    """As the schema has it, or as the caller wants it."""
    counts = app.pstate("counts")
    assert counts.get("absent") is None
    assert counts.get("absent", default=7) == 7
    assert app.pstate("takings").get(dt.date(1999, 1, 1), default="none") == "none"


def test_values_have_their_types(app, names):
    """Dates and decimals as keys, sets as values: as declared, and plain."""
    name, at = word(), dt.datetime(2026, 2, 28, 1, 2, 3, 4, dt.UTC)
    row = {"day": DAY, "price": Decimal("1.50"), "name": name, "at": at}
    receipt = app.depot("orders").append(row)
    app.wait(receipt)
    takings = app.pstate("takings").get()
    assert {type(key) for key in takings} == {dt.date}
    assert {type(key) for inner in takings.values() for key in inner} == {Decimal}
    assert app.pstate("takings").get(DAY, Decimal("1.50")) >= 1
    found = app.pstate(names).get(DAY)
    assert isinstance(found, set)
    assert name in found
    assert app.pstate("total").get() >= 1
    assert isinstance(app.pstate("total").get(), int)
    (last,) = [
        each
        for batch in app.depot("orders").tail(follow=False)
        for each in batch.rows()
        if each["name"] == name
    ]
    assert last == row


def test_refused_records(app):
    """The same lines and reasons; the good ones on demand."""
    depot, good = app.depot("words"), word()
    mixed = [{"word": good, "n": 1}, {"n": 2}, {"word": good, "n": "x"}]
    with pytest.raises(RecordsRefusedError) as refused:
        depot.append(mixed)
    assert refused.value.context["refused"] == 2
    assert [each["line"] for each in refused.value.context["refusals"]] == [2, 3]
    receipt = depot.append(mixed, on_invalid="keep")
    assert (receipt.count, receipt.refused_count) == (1, 2)
    assert [each.line for each in receipt.refusals] == [2, 3]
    app.wait(receipt)
    assert app.pstate("counts").get(good) == 1
    with pytest.raises(UsageError, match="cannot be appended"):
        depot.append("text")
    with pytest.raises(UsageError, match="on_invalid"):
        depot.append([], on_invalid="perhaps")


def test_producers(app):
    """A number sent again is stored once; a gap is refused."""
    depot, one = app.depot("words"), word()
    first = depot.append({"word": one, "n": 1}, producer=Producer(one, 5))
    again = depot.append({"word": one, "n": 1}, producer=Producer(one, 5))
    assert not first.duplicate
    assert again.duplicate
    assert again.offsets == first.offsets
    with pytest.raises(ProducerError) as gap:
        depot.append({"word": one, "n": 1}, producer=Producer(one, 7))
    assert gap.value.context["problem"] == "gap"
    app.wait(again)
    assert app.pstate("counts").get(one) == 1


def test_files(app, tmp_path):
    """A file is appended as one call."""
    one = word()
    file = tmp_path / "words.csv"
    file.write_text(f"word,n\n{one},1\n{one},2\n")
    app.wait(app.depot("words").append_file(file))
    assert app.pstate("counts").get(one) == 3


def test_mistakes_are_the_same_errors(app):
    """Paths that do not fit, receipts that are none, waits in vain."""
    counts = app.pstate("counts")
    with pytest.raises(PathError):
        counts.select(path.key(1))
    with pytest.raises(PathError, match="values, not one"):
        counts.select_one(path.keys().filter("==", "absent"))
    with pytest.raises(ReceiptError):
        app.wait("rubbish")
    with pytest.raises(UsageError, match="needs the argument"):
        app.query("how_many")
    app.topology("mb").pause()
    try:
        receipt = app.depot("words").append({"word": word(), "n": 1})
        with pytest.raises(WaitTimeoutError):
            app.wait(receipt, timeout_seconds=0.1)
    finally:
        app.topology("mb").resume()
    app.wait(receipt)
    with pytest.raises(WaitTimeoutError):
        app.topology("mb").wait_processed(10**9, 0.05)


def test_earlier_states_and_going_back(app):
    """As of a microbatch; a rollback, after which the same records are read again."""
    depot, counts, mb, one = app.depot("words"), app.pstate("counts"), app.topology("mb"), word()
    before = app.wait(depot.append({"word": one, "n": 1}))["mb"]
    after = app.wait(depot.append({"word": one, "n": 1}))["mb"]
    assert counts.as_of(before).get(one) == 1
    assert counts.as_of(after).select_one(path.key(one)) == 2
    with pytest.raises(UsageError):
        counts.as_of(10**6)
    assert mb.rollback_plan(before).keys() >= {"possible", "refused"}  # it may be delivering
    mb.rollback(before)
    assert mb.status()["state"] == "paused"
    assert counts.get(one) == 1
    mb.resume()
    app.wait_idle()
    assert counts.get(one) == 2
    assert mb.recent_microbatches()[-1]["id"] > before
    assert mb.checkpoint() > before


def test_subscriptions(app):
    """The value, then its changes; from a position on, and as soon as an append shows."""
    depot, one = app.depot("words"), word()
    receipt = depot.append({"word": one, "n": 1})
    with app.subscribe("counts", path.key(one), after=receipt) as changes:
        first = changes.next(10)
        assert (first.kind, first.new) == ("snapshot", 1)
        app.wait(depot.append({"word": one, "n": 2}))
        second = changes.next(10)
        assert (second.kind, second.old, second.new) == ("change", 1, 3)
        assert second.apply(first.apply()) == 3
        position = changes.position
        assert position == second.position
    app.wait(depot.append({"word": one, "n": 3}))
    with app.subscribe("counts", path.key(one), after=position) as changes:
        assert changes.next(10).new == 6
        assert changes.next(0.05) is None
        assert not changes.closed
    with pytest.raises(UsageError, match="position"):
        app.subscribe("counts", after="7@x").next(5)
    with pytest.raises(NotFoundError):
        app.subscribe("no")


def test_tails(app):
    """From the beginning, behind a receipt, the last ones; and live."""
    depot, one = app.depot("words"), word()
    receipt = depot.append([{"word": one, "n": n} for n in range(5)])
    told = [row for batch in depot.tail(follow=False) for row in batch.rows()]
    assert [row["n"] for row in told if row["word"] == one] == list(range(5))
    ((partition, (first, _)),) = receipt.offsets.items()
    assert list(depot.tail(receipt, partition=partition, follow=False)) == []
    with depot.tail(first + 3, partition=partition, follow=False, batch_records=1) as tail:
        assert [row["n"] for batch in tail for row in batch.rows()] == [3, 4]
    with depot.tail(start.ago(2, "records"), partition=partition, follow=False) as tail:
        assert [row["n"] for batch in tail for row in batch.rows()] == [3, 4]
    with depot.tail(start.end()) as tail:
        assert tail.next(0.05) is None
        more = depot.append({"word": one, "n": 9})
        batch = tail.next(10)
        assert batch.rows() == [{"word": one, "n": 9}]
        assert app.wait(batch.position)
    assert list(depot.tail(more, partition=partition, follow=False)) == []
    with pytest.raises(DepotError):
        depot.tail({0: 10**9, 1: 10**9})
    with pytest.raises(UsageError):
        depot.tail(partition=77)
    assert depot.everything().count == sum(depot.end_offsets()) - sum(depot.start_offsets())


def test_options(app):
    """Set, read and taken back; mistakes refused."""
    name = "topology.microbatch.retry.max.attempts"
    usual = app.options.get(name, topology="mb")
    app.options.set(name, 3, topology="mb")
    assert app.options.get(name, topology="mb") == 3
    app.options.unset(name, topology="mb")
    assert app.options.get(name, topology="mb") == usual
    with pytest.raises(NotFoundError):
        app.options.get("no.such.option", topology="mb")
    with pytest.raises(UsageError, match="several topologies"):
        app.options.get(name)


def test_scaling(app):
    """A policy is followed; a dry run moves nothing."""
    cluster = app.cluster
    try:
        planned = cluster.set_parallelism("mb", "1", dry_run=True)
        assert planned.vnodes_moved == 2
        assert cluster.describe()["policies"]["mb"] == "adaptive"
        moved = cluster.set_parallelism("mb", "1")
        assert (moved.vnodes_moved, moved.is_noop) == (2, False)
        assert cluster.describe()["policies"]["mb"] == "fixed(1)"
    finally:
        cluster.set_parallelism("mb", "adaptive")
    with pytest.raises(NotFoundError):
        cluster.set_parallelism("no", "1")


def test_status(app):
    """What it is at, and its size."""
    app.pause()
    assert {each["state"] for each in app.status()["topologies"].values()} == {"paused"}
    app.resume()
    assert app.status()["state"] == "running"
    assert app.topology("mb").status()["state"] == "running"
    assert {each["kind"] for each in app.graph()["nodes"]} >= {"depot", "pstate"}
    app.wait_fresh("counts")
    app.wait_committed("words")


def test_export(app):
    """Keys and values in columns, and what commits wrote."""
    one = word()
    app.wait(app.depot("words").append({"word": one, "n": 6}))
    table = app.pstate("counts").export().to_table()
    found = {row["key"]: row["value"] for row in table.to_pylist()}
    assert found[one] == 6
    export = app.pstate("counts").export_changes()
    assert one in export.to_table()["key"].to_pylist()
    assert export.microbatch >= 1
