"""What a notebook shows: whole, well-formed, and nothing of a user's unescaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import atoll
from atoll import LocalCluster, Map, agg, path, start
from atoll.markup import Rows, table, text

EVIL = '<script>alert("x")</script>&\'"'


def parsed(markup):
    """The markup as a tree; it must be well-formed, and without anything that runs."""
    tree = ET.fromstring(f"<div>{markup}</div>")
    for each in tree.iter():
        name = each.tag.rpartition("}")[2]
        assert name not in {"script", "style", "iframe", "object", "a", "img", "foreignObject"}
        assert not [key for key in each.attrib if key.startswith("on") or key == "href"]
    return tree


def texts(tree, tag):
    """The texts of all elements of that name."""
    return ["".join(each.itertext()) for each in tree.iter() if each.tag.rpartition("}")[2] == tag]


@pytest.mark.parametrize(
    "value",
    [EVIL, [EVIL], {EVIL: EVIL}, (EVIL, 1), EVIL.encode()],
    ids=["str", "list", "dict", "tuple", "bytes"],
)
def test_values_are_escaped(value):
    """As cells, heads, captions and in attributes."""
    shown = table([EVIL], [[value]], EVIL)
    tree = parsed(shown)
    assert texts(tree, "th") == [EVIL]
    assert texts(tree, "caption") == [EVIL]
    assert texts(tree, "td") == [value if isinstance(value, str) else repr(value)]
    assert parsed(f'<p title="{text(value)}"/>').find("p").get("title")


def test_long_values_and_long_tables_are_cut():
    """And say so."""
    assert len(text("x" * 1_000)) == 200
    assert text("x" * 1_000).endswith("…")
    cells = texts(parsed(table(["n"], [[n] for n in range(1_060)])), "td")
    assert len(cells) == 51
    assert cells[-1] == "… and 1,010 more"
    assert texts(parsed(table([], [])), "td") == []


def test_results_are_tables_by_their_shape():
    """Dicts by field, pairs by key and value, others by value; a list in every other way."""
    dicts = parsed(Rows([{"a": 1}, {"b": EVIL, "a": None}])._repr_html_())
    assert texts(dicts, "th") == ["a", "b"]
    assert texts(dicts, "td") == ["1", "", "", EVIL]
    pairs = parsed(Rows([("k", 1)])._repr_html_())
    assert (texts(pairs, "th"), texts(pairs, "td")) == (["key", "value"], ["k", "1"])
    assert texts(parsed(Rows([1, "x"])._repr_html_()), "td") == ["1", "x"]
    assert texts(parsed(Rows()._repr_html_()), "td") == []
    assert Rows([1]) == [1]
    assert repr(Rows([1])) == "[1]"


def _module():
    module = atoll.Module("shop")
    sales = module.depot("sales", "user string, n long", partition_by="user")
    loud = module.depot("loud", "user string")
    mb = module.microbatch("mb", vnode_count=4)
    totals = mb.pstate("totals", Map(str, int))
    source = mb.source(sales, start_from=start.beginning())
    changes = source.aggregate(totals[f"concat(user, '{'<b>'}')"], agg.sum("n")).changes()
    changes.map(lambda row: {"user": "x"}, emits="user string").append_to(loud)
    again = module.microbatch("again", vnode_count=4)
    again.source(loud).append_to(loud)
    return module


def test_a_module_is_drawn():
    """Each depot, PState and step once, each arrow from left to right but those of a circle."""
    tree = parsed(_module()._repr_html_())
    labels = texts(tree, "text")
    assert sorted(labels) == sorted(
        [
            "sales",
            "loud",
            "totals",
            """aggregate totals["concat(user, '<b>')"]""",
            "columns of aggregate",
            "changes",
            "map",
            "append_to",
            "append_to",
        ]
    )
    assert any("test_markup.py" in told for told in texts(tree, "title"))
    drawn = [each for each in tree.iter() if each.tag.endswith("path") and "C" in each.get("d")]
    assert len(drawn) == 9
    assert sum("stroke-dasharray" in each.attrib for each in drawn) == 1
    x = {}
    for group in tree.iter("{http://www.w3.org/2000/svg}g"):
        box = group.find("{http://www.w3.org/2000/svg}rect")
        x.setdefault("".join(group[-1].itertext()).split()[0], int(box.get("x")))
    way = ["sales", "columns", "aggregate", "totals", "changes", "map", "append_to", "loud"]
    assert [x[label] for label in way] == sorted({x[label] for label in way})
    assert len(texts(parsed(_module().topologies["again"]._repr_html_()), "text")) == 2
    assert parsed(atoll.Module("empty")._repr_html_()) is not None


def test_what_runs_is_shown_as_it_is():
    """App, topology, microbatches, PState and selects."""
    module = atoll.Module("words")
    words = module.depot("words", "word string", partition_by="word", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words, start_from=start.beginning()).aggregate(counts["word"], agg.count())
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("words").append([{"word": EVIL}])
        app.topology("mb").wait_processed(1)
        app.pause()
        cells = texts(parsed(app._repr_html_()), "td")
        assert cells[:4] == ["mb", "paused", "1", "1"]
        assert cells[-3:] == ["words", "1", "2"]
        assert texts(parsed(app.topology("mb")._repr_html_()), "caption") == ["topology mb"]
        shown = parsed(app.depot("words")._repr_html_())
        assert texts(shown, "caption") == ["depot words: word string"]
        assert sorted(int(each) for each in texts(shown, "td")[3::4]) == [0, 1]
        assert "words" in mb.source(words)._repr_html_()
        recent = parsed(app.topology("mb").recent_microbatches()._repr_html_())
        assert texts(recent, "th")[:4] == ["id", "version", "committed_at_ms", "records"]
        shown = parsed(app.pstate("counts")._repr_html_())
        assert texts(shown, "td") == ["counts", "mb", "{'map': ['str', 'int']}", "4", "1"]
        selected = parsed(app.pstate("counts").select(path.all())._repr_html_())
        assert texts(selected, "td") == [EVIL, "1"]
