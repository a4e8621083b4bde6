"""The small examples of Rama's documentation whose results are printed, written with Atoll.

:data:`WHERE` has a row for every one of them: the test that holds its result, or why there is
none. Examples of stream topologies are written as microbatches, which is what Atoll has: the
results are the same, they only come with the commit of a microbatch.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import atoll
from atoll import List, Map, Struct, agg, path
from atoll.testing import TopologyTestDriver

HERE = "tests/cases/test_printed_examples.py"
BLOCKS = "tests/cluster/topologies/test_batch_blocks.py::test_rama_batch_blocks"
QUERIES = "tests/cluster/queries/test_queries.py::test_rama_s_examples"
FOLLOWED = "tests/views/test_subscription.py::test_differences_of_plain_values"

WHERE = {
    "WordCount": f"{HERE}::test_word_count",
    "SimpleWordCount": f"{HERE}::test_simple_word_count",
    "AggregateModule": f"{HERE}::test_aggregate_module",
    "BasicStreamTopology": f"{HERE}::test_basic_stream_topology",
    "ClientBasicSelect": f"{HERE}::test_client_basic_select",
    "SortedMapRange": f"{HERE}::test_sorted_map_range",
    "GlobalSumModule": f"{HERE}::test_global_sum_module",
    "PostAggAllTasks": f"{HERE}::test_post_agg_all_tasks",
    "LimitModule": f"{HERE}::test_limits",
    "LimitWithOptions": f"{HERE}::test_limits",
    "UpdateExample": f"{HERE}::test_update_example",
    "MicrobatchTesting": f"{HERE}::test_microbatch_testing",
    "RamaSpace, posts": f"{HERE}::test_ramaspace_posts",
    "Batch blocks: explode": BLOCKS,
    "Batch blocks: merge": BLOCKS,
    "Batch blocks: inner join": BLOCKS,
    "Batch blocks: left outer join": BLOCKS,
    "Batch blocks: sub-batch word count": BLOCKS,
    "GroupByModule, as a batch block": BLOCKS,
    "paths/*": "tests/test_path.py",
    "depots/CustomPartitioning": "tests/depot/test_partitioner.py",
    "pstates/CustomKeyPartitioner": "tests/cases/test_custom_key_partitioner.py",
    "depots/DepotPartitionAppend": "tests/cluster/topologies/test_append_to.py",
    "QueryAggValue": QUERIES,
    "Colocated": QUERIES,
    "Fibonacci": QUERIES,
    "GroupByModule": QUERIES,
    "ReachModule": "tests/cluster/queries/test_queries.py::test_reach_is_what_plain_python_finds",
    "SimpleQuery": f"{HERE}::test_simple_queries",
    "TemporaryQueryState": f"{HERE}::test_simple_queries",
    "RamaSpace, resolvePosts": f"{HERE}::test_ramaspace_posts",
    "MirrorPStateExample": f"{HERE}::test_mirror_pstate",
    "UsingMirrors": f"{HERE}::test_using_mirrors",
    "Circular deps": "tests/cluster/updates/test_mirrors.py::test_modules_can_mirror_each_other",
    "TickDepot": "tests/time/test_ticks.py::test_a_tick_of_three_seconds_comes_three_times_in_ten",
    "DiffProcessing, MultiSubscriber": FOLLOWED,
    "BasicReactive": "tests/views/test_subscription.py::test_what_rama_s_proxy_receives",
}
"""Where the result of an example is held."""

LEFT_OUT = {
    "BasicAckReturn, SumAckReturn": "acks of stream topologies: there are only microbatches",
    "RamaSpace, registration": "answers an append with what the topology made of it: an append "
    "is acknowledged when it is durable, before any topology has seen it",
    "NonMacroModuleUniqueIdPState": "prints no result",
    "integrating/*": "call the services of others, and print no result",
}
"""Why there is no test."""


def test_every_example_is_accounted_for_once():
    """Each place in the table exists, and no example stands in it twice."""
    root = Path(__file__).parents[2]
    for name, where in WHERE.items():
        file, _, function = where.partition("::")
        text = (root / file).read_text(encoding="utf-8")
        assert not function or re.search(rf"^def {function}\(", text, re.MULTILINE), name
    assert not (WHERE.keys() & LEFT_OUT.keys())


def _topology(name, schema, vnodes, **depot):
    """A module of one depot and one topology, and the stream between them."""
    module = atoll.Module(name)
    mb = module.microbatch("mb", vnode_count=vnodes)
    return module, mb, mb.source(module.depot("depot", schema, **depot))


@pytest.fixture(params=[(1, 1, 1), (3, 16, 2), (4, 64, 5)], ids=str)
def inline(request, tmp_path):
    """A cluster without Spark, and how the modules on it are cut: partitions and vnodes."""
    partitions, vnodes, units = request.param
    root = tmp_path / "root"
    with atoll.LocalCluster(root, parallelism=units, engine="inline") as cluster:
        cluster.partitions, cluster.vnodes = partitions, vnodes
        yield cluster


def _words(row):
    return [{"word": word} for word in row.text.split()]


def test_word_count(inline):
    """Sentences to words to counts."""
    module, mb, sentences = _topology(
        "word-count", "text string", inline.vnodes, partitions=inline.partitions
    )
    counts = mb.pstate("counts", Map(str, int))
    sentences.flat_map(_words, emits="word string").aggregate(counts["word"], agg.count())
    app = inline.deploy(module)
    texts = ["hello world", "hello world again", "say hello to the planet", "red planet labs"]
    app.depot("depot").append([{"text": text} for text in texts])
    app.topology("mb").wait_processed(4)
    assert {w: app.pstate("counts").get(w) for w in ("hello", "world", "planet", "red")} == {
        "hello": 3,
        "world": 2,
        "planet": 2,
        "red": 1,
    }


def test_simple_word_count(inline):
    """One, two twice, three three times."""
    module, mb, words = _topology(
        "simple", "word string", inline.vnodes, partition_by="word", partitions=inline.partitions
    )
    counts = mb.pstate("counts", Map(str, int))
    words.aggregate(counts["word"], agg.count())
    app = inline.deploy(module)
    sent = ["one", "two", "two", "three", "three", "three"]
    app.depot("depot").append([{"word": word} for word in sent])
    app.topology("mb").wait_processed(6)
    assert app.pstate("counts").get() == {"one": 1, "three": 3, "two": 2}


def test_aggregate_module(inline):
    """How many there were, and how many of each."""
    module, mb, names = _topology(
        "aggregates", "name string", inline.vnodes, partitions=inline.partitions
    )
    count, each = mb.pstate("count", int), mb.pstate("each", Map(str, int))
    names.aggregate(count, agg.count())
    names.aggregate(each, agg.count_values("name"))
    app = inline.deploy(module)
    sent = ["cagney", "davis", "tracy", "cagney"]
    app.depot("depot").append([{"name": name} for name in sent])
    app.topology("mb").wait_processed(4)
    assert app.pstate("count").get() == 4
    assert app.pstate("each").get() == {"cagney": 2, "davis": 1, "tracy": 1}


def _both_ways(row):
    """Each of the two, with the other beside it."""
    pairs = {(row.a, row.b), (row.b, row.a)}
    return [{"key": key, "other": other} for key, other in sorted(pairs)]


def test_basic_stream_topology(inline):
    """Pairs counted under both of their elements, once where the two are the same."""
    module, mb, pairs = _topology(
        "pairs", "a string, b string", inline.vnodes, partitions=inline.partitions
    )
    counts, subcounts = (
        mb.pstate("counts", Map(str, int)),
        mb.pstate("sub", Map(str, Map(str, int))),
    )
    sides = pairs.flat_map(_both_ways, emits="key string, other string")
    sides.aggregate(counts["key"], agg.count())
    sides.aggregate(subcounts["key"]["other"], agg.count())
    app = inline.deploy(module)
    app.depot("depot").append([{"a": a, "b": b} for a, b in ("ab", "bc", "aa")])
    app.topology("mb").wait_processed(3)
    assert app.pstate("counts").get() == {"a": 2, "b": 2, "c": 1}
    assert app.pstate("sub").get("b") == {"a": 1, "c": 1}


def test_client_basic_select(inline):
    """Only the odd numbers of one key, chosen where the state is, in the order of appends."""
    module, mb, numbers = _topology(
        "selects", "name string, n long", inline.vnodes, partition_by="name"
    )
    lists = mb.pstate("lists", Map(str, List(int)))
    numbers.aggregate(lists["name"], agg.collect_list("n"))
    app = inline.deploy(module)
    rows = [("cagney", n) for n in (1, 7, 3, 8)] + [("davis", n) for n in (10, 12, 14)]
    app.depot("depot").append([{"name": name, "n": n} for name, n in rows])
    app.topology("mb").wait_processed(7)
    odd = path.filter(lambda n: n % 2 == 1)
    state = app.pstate("lists")
    assert state.select(path.key("cagney").all().filter(lambda n: n % 2 == 1)) == [1, 7, 3]
    assert state.select_one(path.key("cagney").filtered_list(odd)) == [1, 7, 3]
    assert state.select(path.key("davis").all().filter(lambda n: n % 2 == 1)) == []


def test_sorted_map_range(inline):
    """Entries between two keys, and the first names of many; the rows are ours."""
    module, mb, rows = _topology(
        "ranges", "kind string, key long, value long, name string", inline.vnodes
    )
    numbers = mb.pstate("numbers", Map(str, Map(int, int)))
    names = mb.pstate("names", Map(str, Map(str, int)))
    rows.aggregate(numbers["kind"]["key"], agg.last("value"))
    rows.aggregate(names["kind"]["name"], agg.last("key"))
    app = inline.deploy(module)
    entries = [(3, 9), (17, 1), (10, 14), (16, 17), (11, 12), (40, 2)]
    app.depot("depot").append(
        [{"kind": "x", "key": k, "value": v, "name": f"p{k:02}"} for k, v in entries]
    )
    app.topology("mb").wait_processed(6)
    found = app.pstate("numbers").select(path.key("x").sorted_range(10, 17).all())
    assert found == [(10, 14), (11, 12), (16, 17)]
    first = app.pstate("names").select(path.key("x").sorted_range_from_start(5).keys())
    assert first == ["p03", "p10", "p11", "p16", "p17"]


def test_global_sum_module():
    """A sum of each microbatch, also of one that brings no rows to be summed.

    Rama's sum of nothing is 0; here it is null, as in SQL, and the step after it says 0.
    """
    module, mb, numbers = _topology("global-sum", "v long", 8)
    mb.source(module.depot("others", "v long"))
    total, sums = mb.pstate("total", int, initial=0), mb.pstate("sums", List(int))
    each = numbers.agg(v=agg.sum("v")).map(lambda row: {"v": row.v or 0}, emits="v long")
    each.aggregate(total, agg.sum("v"))
    each.aggregate(sums, agg.collect_list("v"))
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("depot").append([{"v": v} for v in (1, 2, 3, 4)])
        driver.fail_next_attempt(after_work=True)
        driver.microbatch()
        driver.depot("others").append({"v": 100})
        driver.microbatch()
        assert driver.pstate("total").get() == 10
        assert driver.pstate("sums").get() == [10, 0]


def test_post_agg_all_tasks(inline):
    """Maps built by the tasks that hold the rows, merged into one.

    Code after an aggregation runs where the groups are: partial maps cross the exchange and are
    merged, which is what the vendor's example does by hand.
    """
    module, mb, words = _topology(
        "post-agg", "word string", inline.vnodes, partitions=inline.partitions
    )
    merged = mb.pstate("merged", Map(str, int))
    words.group_by("word").agg(n=agg.count()).aggregate(merged["word"], agg.sum("n"))
    app = inline.deploy(module)
    app.depot("depot").append([{"word": word} for word in "abagdd"])
    app.topology("mb").wait_processed(6)
    assert app.pstate("merged").get() == {"a": 2, "b": 1, "d": 2, "g": 1}


def _sums(row):
    rows = row.kept or []
    return {"sums": [sum(each["v1"] for each in rows), sum(each["v3"] for each in rows)]}


def _numbered(row):
    return [{"text": f"{at}:{each['v1']},{each['v3']}"} for at, each in enumerate(row.kept)]


def test_limits(inline):
    """Three of four rows: those that came first, and those of the greatest ``v2``, numbered."""
    module, mb, tuples = _topology(
        "limits", "v1 long, v2 long, v3 long", inline.vnodes, partitions=1
    )
    first, top = mb.pstate("first", List(int)), mb.pstate("top", List(int))
    rows = mb.pstate("rows", List(str))
    columns = {"v1": "v1", "v3": "v3"}
    limited = tuples.agg(kept=agg.limit(3, columns))
    limited.map(_sums, emits="sums array<long>").aggregate(first, agg.last("sums"))
    ordered = tuples.agg(kept=agg.limit(3, columns, order_by="v2", descending=True))
    ordered.map(_sums, emits="sums array<long>").aggregate(top, agg.last("sums"))
    ordered.flat_map(_numbered, emits="text string").aggregate(rows, agg.collect_list("text"))
    app = inline.deploy(module)
    app.topology("mb").pause()
    sent = [(1, 2, 3), (10, 11, 12), (6, 4, 5), (1000, 1000, 1000)]
    app.depot("depot").append([dict(zip(("v1", "v2", "v3"), each, strict=True)) for each in sent])
    app.topology("mb").resume()
    app.topology("mb").wait_processed(4)
    assert app.pstate("first").get() == [17, 20]
    assert app.pstate("top").get() == [1016, 1017]
    assert app.pstate("rows").get() == ["0:1000,1000", "1:10,12", "2:6,5"]


def _adding(amount):
    module, mb, records = _topology("update-example", "x long", 8)
    total = mb.pstate("total", int, initial=0)
    added = records.map(lambda _row: {"by": amount}, emits="by long")
    added.aggregate(total, agg.sum("by"))
    return module


def test_update_example(inline):
    """The first version adds 2, the second 1; the processed count goes on."""
    app = inline.deploy(_adding(2))
    app.depot("depot").append({"x": 0})
    app.topology("mb").wait_processed(1)
    assert app.pstate("total").get() == 2
    app = inline.update(_adding(1))
    app.depot("depot").append({"x": 0})
    app.topology("mb").wait_processed(2)
    assert app.pstate("total").get() == 3


def test_microbatch_testing(inline):
    """Pause, append, resume: what waited is processed, and a missing key is None."""
    module, mb, names = _topology(
        "testing", "name string", inline.vnodes, partitions=inline.partitions
    )
    counts = mb.pstate("counts", Map(str, int))
    names.aggregate(counts["name"], agg.count())
    app = inline.deploy(module)
    topology = app.topology("mb")
    topology.pause()
    app.depot("depot").append([{"name": name} for name in ("cagney", "davis", "cagney")])
    assert app.pstate("counts").get("cagney") is None
    topology.resume()
    topology.wait_processed(3)
    found = [app.pstate("counts").get(name) for name in ("cagney", "davis", "tracy")]
    assert found == [2, 1, None]
    app.depot("depot").append({"name": "cagney"})
    topology.wait_processed(4)
    assert app.pstate("counts").get("cagney") == 3


def _post(row, posts):
    posts[row.to][len(posts[row.to])] = {"sender": row.sender, "text": row.text}


def test_ramaspace_posts(inline):
    """24 posts on one wall, read in pages of 20 by the number of the post."""
    module, mb, sent = _topology(
        "ramaspace", "to string, sender string, text string", inline.vnodes, partition_by="to"
    )
    wall = Map(int, Struct(sender=str, text=str))
    posts = mb.pstate("posts", Map(str, wall), track_size=True)
    sent.process(_post, key="to", states=[posts])
    asked = module.query("resolve", user=str, start=int)
    asked.select_from(
        posts,
        lambda row: path.key(row.user).sorted_range_from(row.start, limit=20).all(),
        emits="at long, post struct<sender: string, text: string>",
    ).returns(rows="all")
    app = inline.deploy(module)
    texts = [(sender, f"{letter}{n}") for n in range(8) for sender, letter in ("bx", "cy", "dz")]
    app.depot("depot").append([{"to": "alice", "sender": s, "text": t} for s, t in texts])
    app.topology("mb").wait_processed(24)
    state = app.pstate("posts")
    first = state.select_one(path.key("alice").sorted_range_from(0, limit=20))
    assert [(each["sender"], each["text"]) for each in first.values()] == texts[:20]
    rest = state.select_one(path.key("alice").sorted_range_from(max(first) + 1, limit=20))
    assert [(each["sender"], each["text"]) for each in rest.values()] == texts[20:]
    found = [app.query("resolve", user="alice", start=start) for start in (0, max(first) + 1)]
    assert [[each["post"]["text"] for each in rows] for rows in found] == [
        [text for _, text in texts[:20]],
        [text for _, text in texts[20:]],
    ]


def test_simple_queries(inline):
    """Arguments in, a value out; nothing is stored."""
    module = atoll.Module("queries")
    simple = module.query("simple", a=int, b=int)
    simple.map(lambda row: {"c": row.a + row.b + 1}, emits="c long").returns("c")
    sums = module.query("sums", a=int, b=int)
    sums.map(lambda row: {"c": row.a + row.b}, emits="c long").returns("c")
    app = inline.deploy(module)
    assert [app.query("simple", a=a, b=b) for a, b in [(1, 2), (10, 7)]] == [4, 18]
    assert [app.query("sums", a=a, b=b) for a, b in [(2, 3), (2, 4), (3, 5)]] == [5, 6, 8]


def _counting(vnodes, partitions):
    """A module that counts the words of its depot."""
    module, mb, words = _topology("words", "word string", vnodes, partitions=partitions)
    words.aggregate(mb.pstate("counts", Map(str, int))["word"], agg.count())
    return module


def test_mirror_pstate(inline):
    """A row of one module and what another one has counted make one number."""
    first = inline.deploy(_counting(inline.vnodes, inline.partitions))
    first.depot("depot").append([{"word": "a"}, {"word": "a"}])
    first.topology("mb").wait_processed(2)
    module, mb, rows = _topology("adding", "word string, n long", 4)
    counts = module.mirror_pstate("words", "counts", Map(str, int))
    sums = mb.pstate("sums", Map(str, int))
    rows.lookup(counts["word"], "known").map(
        lambda row: {"word": row.word, "sum": row.n + row.known}, emits="word string, sum long"
    ).aggregate(sums["word"], agg.last("sum"))
    second = inline.deploy(module)
    second.depot("depot").append({"word": "a", "n": 10})
    second.topology("mb").wait_processed(1)
    assert second.pstate("sums").get("a") == 12


def test_using_mirrors(inline):
    """A module counts what is appended to another one's depot."""
    first = inline.deploy(_counting(4, inline.partitions))
    module = atoll.Module("mirroring")
    theirs = module.mirror_depot("words", "depot", "word string")
    mb = module.microbatch("mb", vnode_count=inline.vnodes)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(theirs).aggregate(counts["word"], agg.count())
    second = inline.deploy(module)
    first.depot("depot").append([{"word": word} for word in "aba"])
    second.topology("mb").wait_processed(3)
    assert second.pstate("counts").get() == {"a": 2, "b": 1}
