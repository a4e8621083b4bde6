"""Hostile inputs: paths that explode, names that lead elsewhere, JSON that means two things."""

import stat
import time

import pytest
from fakes import FakePState

from atoll import path
from atoll.errors import BudgetError
from atoll.path.wire import from_json
from atoll.pstate.navigate.budget import Budget, BudgetedReader, within
from atoll.pstate.navigate.walker import Walker
from atoll.storage import LocalStore

SELECT = "/v1/modules/shop/pstates/global_sum/select"
BOMB = [["multi_path", [], []]] * 40
BOMBS = {
    "selected": BOMB,
    "collected": [["subselect", BOMB]],
    "as a condition": [["filter_selected", [*BOMB, ["stop"]]]],
    "transformed": [["transformed", [*BOMB, ["set", 1]]]],
    "in turn": [["multi_path", *[[["multi_path", [], [], []]]] * 3]] * 12,
}


class Walked(FakePState):
    """A PState that follows paths through a value in memory."""

    def select(self, wanted):
        """What it leads to."""
        return list(Walker().results(self.values, wanted))


@pytest.mark.parametrize("kind", BOMBS)
def test_a_path_that_explodes_is_refused(client, app, tokens, bearer, kind):
    """In a moment, with what to do; and others are answered meanwhile."""
    app._pstates["global_sum"] = Walked(int, 1)
    began = time.monotonic()
    answer = client.post(SELECT, json={"path": BOMBS[kind]}, headers=bearer(tokens["viewer"]))
    assert (answer.status_code, answer.json()["code"]) == (422, "E-BUDGET")
    assert time.monotonic() - began < 10


def test_whoever_reads_for_himself_has_no_budget():
    """Nothing is counted in a user's own process."""
    wanted = from_json([["multi_path", [], []]] * 10)
    assert len(list(Walker().results(1, wanted))) == 1024
    with pytest.raises(BudgetError, match="1000 paths"), within(Budget(branches_max=1000)):
        list(Walker().results(1, wanted))
    assert len(list(Walker().results(1, wanted))) == 1024


class Entries:
    """A reader of a hundred entries."""

    def get(self, vnode, key):
        """Ten bytes for each key."""
        return b"0123456789"

    def scan(self, vnode, low=None, high=None, *, reverse=False, limit=None):
        """All of them."""
        for number in range(100):
            yield b"key", str(number).encode()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"entries_max": 99}, "99 entries"),
        ({"bytes_max": 400}, "400 bytes"),
        ({"seconds_max": 0}, "0 seconds"),
    ],
)
def test_what_is_read_is_counted(limits, words):
    """Entries, bytes, and how long it takes."""
    reader = BudgetedReader(Entries(), Budget(**limits))
    with pytest.raises(BudgetError, match=words):
        [*reader.scan(0), *reader.scan(0), *reader.scan(0)]
    reader = BudgetedReader(Entries(), Budget(entries_max=101))
    assert len(list(reader.scan(0))) == 100
    assert reader.get(0, b"x") == b"0123456789"
    with pytest.raises(BudgetError):
        reader.get(0, b"x")


def test_a_real_pstate_is_read_within_the_budget(tmp_path):
    """Entries of its stores are counted, also where one value is all of it."""
    from atoll import LocalCluster, Map, Module, agg

    module = Module("counted")
    words = module.depot("words", "w string NOT NULL")
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, int))
    mb.source(words).aggregate(counts["w"], agg.count())
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("words").append([{"w": str(n)} for n in range(50)])
        app.topology("mb").wait_processed(50)
        reading = app.pstate("counts")
        for wanted in (path.all(), path.map_vals(), path.subselect(path.map_vals()), path.keys()):
            with pytest.raises(BudgetError), within(Budget(entries_max=20)):
                reading.select(wanted) if wanted is not None else reading.get()
        with within(Budget(entries_max=200, bytes_max=100_000)):
            assert len(reading.select(path.map_vals())) == 50


NAMES = [
    *("..%2f..", "%2e%2e", "%252e%252e%252f", "..%5c..", "....//"),
    *("/etc/passwd", "%2fetc%2fpasswd", "C:\\x", "\\\\host\\x", "CON", "nul.txt.", "a.", ".a", "~"),
    *("a%00b", "%00", "a\u2024\u2024b", "\uff0e\uff0e", "a b", "a%0ab", "a%0d%0aX: y", "-a", "_a"),
    *("x" * 64, "x" * 5_000, "\u00e4", "%c0%ae%c0%ae", "%ff", "a;b", "a*", "$HOME"),
    *("`id`", "$(id)", "{{7*7}}", "${7*7}", "<script>", "'or'1'='1", '"', "__proto__", "a%2eb"),
    *(".access", ".access%2ftokens.json", "..%2f.access%2ftokens.json", "meta%2f..", "local/x"),
]
PLACES = [
    "/v1/modules/{}",
    "/v1/modules/shop/depots/{}",
    "/v1/modules/shop/pstates/{}",
    "/v1/modules/shop/topologies/{}",
    "/api/runtimes/{}",
    "/page/0/{}",
]


def test_names_lead_nowhere_else(client, tokens, bearer, root, tmp_path):
    """S3: whatever a name tries, it is refused, and nothing in the root changes."""
    before = sorted(root.rglob("*"))
    wrong = []
    for place in PLACES:
        for name in NAMES:
            answer = client.get(place.format(name), headers=bearer(tokens["admin"]))
            if not 400 <= answer.status_code < 500 or "sha256" in answer.text:
                wrong.append((place, name, answer.status_code))
    assert wrong == []
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    "body",
    [
        b'{"path": [], "path": [["all"]]}',
        b'{"path": [], "one": false, "one": true}',
        b'{"path": [["key", {"a": 1, "a": 2}]]}',
        b'{"path": [["sorted_range", {"start": 1, "start": 2}]]}',
    ],
)
def test_json_that_means_two_things_is_refused(client, tokens, bearer, body):
    """Who checked it before may have read the other value."""
    headers = {**bearer(tokens["viewer"]), "content-type": "application/json"}
    answer = client.post(SELECT, content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "E-USAGE")
    assert "twice" in answer.json()["detail"]


def test_a_root_is_for_its_owner(tmp_path):
    """S8: what lies there may be read as code, and holds what others may not see."""
    LocalStore(tmp_path / "root").create("meta/x", b"x")
    for folder in ("root", "root/meta"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
