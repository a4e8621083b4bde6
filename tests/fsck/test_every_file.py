"""Every file of a root that holds all that a root can hold: a flipped byte is never passed over.

The kinds of files are enumerated: one that is not known here fails the test, so that whoever adds
a kind has to say who checks it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from collecting_sink import Collecting, Server
from starlette.testclient import TestClient
from waiting import until

import atoll
from atoll import Map, agg, start
from atoll.depot import Producer
from atoll.errors import DamageError
from atoll.fsck.root import check_root
from atoll.placement.reschedule.change import UnitChange
from atoll.runtime.service.following import announce
from atoll.runtime.service.runtimes import Runtimes
from atoll.server import create_app
from atoll.storage.folders import RootFolders, check_identity, share
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
NUMBER = r"\d{20}"
CHECKED = {
    "identity": "meta/identity",
    "epoch": rf"[\w-]+/epochs/{NUMBER}",
    "deployment": rf"[\w-]+/deployments/{NUMBER}",
    "cluster revision": rf"[\w-]+/cluster/{NUMBER}",
    "what was before the first revision": rf"meta/cluster-begin/{NUMBER}",
    "trial": rf"meta/trials/{NUMBER}",
    "answer to a trial": rf"meta/trial-answers/[\w-]+/{NUMBER}",
    "runtime": rf"meta/runtimes/{NUMBER}",
    "who serves runtimes": rf"meta/runtime-owners/{NUMBER}",
    "effects of a runtime": rf"[\w-]+/effects/{NUMBER}",
    "rest": rf"meta/rests/[\w-]+/{NUMBER}",
    "options": rf"[\w-]+/options/{NUMBER}",
    "segment": rf"[\w-]+/depots/[\w-]+/segments/{NUMBER}\.seg",
    "claim": rf"[\w-]+/depots/[\w-]+/writers/{NUMBER}",
    "note of what is acknowledged": rf"[\w-]+/depots/[\w-]+/acknowledged/{NUMBER}",
    "parcel": rf"[\w-]+/depots/[\w-]+/parcels/[\w-]+/[\w-]+/{NUMBER}",
    "rows of a parcel": rf"[\w-]+/depots/[\w-]+/parcel-rows/.*{NUMBER}.*",
    "retained": rf"[\w-]+/depots/[\w-]+/retained/{NUMBER}",
    "commit": rf"[\w-]+/\w+/commits/{NUMBER}",
    "commit of a later timeline": rf"[\w-]+/\w+/commits-\d+/{NUMBER}",
    "plan": rf"[\w-]+/\w+/plans/{NUMBER}",
    "plan of a later timeline": rf"[\w-]+/\w+/plans-\d+/{NUMBER}",
    "plan cut smaller": rf"[\w-]+/\w+/revisions(-\d+)?/{NUMBER}",
    "attempt": rf"[\w-]+/\w+/attempts(-\d+)?/{NUMBER}",
    "pause": rf"[\w-]+/\w+/pauses/{NUMBER}",
    "timeline": rf"[\w-]+/\w+/timelines/{NUMBER}",
    "log": rf"[\w-]+/\w+/logs/[\w-]+/{NUMBER}.*",
    "checkpoint": rf"[\w-]+/\w+/checkpoints/[\w-]+/{NUMBER}.*",
    "appended rows": rf"[\w-]+/\w+/appends/.*{NUMBER}.*",
    "parcel for a sink": rf"[\w-]+/\w+/sinks/\w+/parcels/{NUMBER}",
    "rows for a sink": rf"[\w-]+/\w+/sinks/\w+/rows/{NUMBER}.*",
    "identity of a sink": rf"[\w-]+/\w+/sinks/\w+/identity/{NUMBER}",
    "what a sink has taken": rf"[\w-]+/\w+/sinks/\w+/taken/{NUMBER}",
    "staged rows": rf"[\w-]+/\w+/staged/{NUMBER}.*",
}
"""Each kind of file that holds something, by its place below the root."""

ELSEWHERE = Server(fails=lambda number: ConnectionError("down") if number > TAKEN else None)
TAKEN = 2
"""How many parcels the sink takes before its server is gone."""

FITTING = 2
"""So many records of a batch can be processed: of more the plan is cut smaller."""

EMPTY = {"pin": r"\w+/\w+/pins/.*"}
"""Kinds whose name says everything."""

LINES = {"file of a runtime": r"runtime-\w+-\w+/files/.*"}
"""Kinds that are not read again: what they hold is whoever asked for them's."""

RUNTIME = {
    "name": "r",
    "actors": [
        {"name": "in", "type": "httpbroadcast"},
        {"name": "log", "type": "log", "params": {"file": "out.jsonl"}},
    ],
    "links": [{"from": "in", "to": "log"}],
}
"""What has effects outside: a line of a file."""


def shop(columns="item string, price long"):
    """Two depots, one with retention, one appended to by the topology; steps that stage rows."""
    module = atoll.Module("shop")
    sales = module.depot("sales", columns, partition_by="item", partitions=2, retain_records=5)
    dear = module.depot("dear", "item string, price long", partition_by="item", partitions=1)
    module.depot("back", "item string, total long")
    options = {
        "pstate.history.seconds": 0,
        "pstate.checkpoint.interval.commits": 2,
        "pstate.history.microbatches": 3,
    }
    mb = module.microbatch("mb", vnode_count=2, options=options)
    totals = mb.pstate("totals", Map(str, int))
    seen = mb.pstate("seen", Map(str, int))

    def fitting(batches):
        for batch in batches:
            if batch.num_rows > FITTING:
                raise MemoryError("too many records at once")
            yield batch

    def note(row, seen):
        seen[row.item] = seen.get(row.item, 0) + 1
        yield {"item": row.item, "price": row.price}

    rows = mb.source(sales, start_from=FIRST)
    rows = rows.map_batches(fitting, emits="item string, price long")
    rows = rows.process(note, key="item", states=[seen], emits="item string, price long")
    rows.aggregate(totals["item"], agg.sum("price"))
    rows.append_to(dear)
    rows.write_to(Collecting(ELSEWHERE), name="out")
    return module


def till():
    """Reads the other module's depot and PState, and appends to another depot of it."""
    module = atoll.Module("till")
    dear = module.mirror_depot("shop", "dear", "item string, price long")
    totals = module.mirror_pstate("shop", "totals", Map(str, int))
    mb = module.microbatch("mb", vnode_count=1)
    highest = mb.pstate("highest", Map(str, int))
    rows = mb.source(dear, start_from=FIRST).lookup(totals["item"], "total")
    back = rows.map(
        lambda row: {"item": row.item, "total": row.total}, emits="item string, total long"
    )
    back.append_to(module.mirror_depot("shop", "back", "item string, total long"))
    rows.aggregate(highest["item"], agg.max("total"))
    return module


def life(root, number, *, last=False):
    """One start of both modules: some appends and microbatches, and whatever leaves a file."""
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app, other = cluster.deploy(shop()), cluster.deploy(till())
        topology = app.topology("mb")
        other.resume()  # the life before may have left it paused
        for part in range(2):
            before = topology.status()["processed"]
            rows = [{"item": f"i{n}", "price": n} for n in range(6)]
            app.depot("sales").append(rows, producer=Producer("p", 2 * number + part))
            topology.wait_processed(before + 6)
        app.options.set("depot.max.fetch", 10 + number)
        other.topology("mb").wait_processed(topology.status()["processed"])
        other.topology("mb").pause()  # it reads nothing of what is taken back
        if last:  # rows that were appended to a depot stay named until they are delivered
            topology.rollback(topology.status()["committed"] - 2, keep_appended=True)
            topology.resume()
            topology.wait_processed(12 * (number + 1))


def run_runtime(root):
    """A runtime that has written a line, and who serves it."""
    with atoll.LocalCluster(root, engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        made = runtimes.start(runtimes.create(RUNTIME))
        TestClient(create_app(runtimes=runtimes), base_url="http://127.0.0.1:7410").post(
            "/api/runtimes/r/actors/in", json={"v": 1}
        )
        until((root / made.module / "files" / "out.jsonl").exists)
        announce(root, "http://127.0.0.1:7410")
        runtimes.close()


def try_over_processes(root):
    """One request for fragments of two modules, each run by a cluster of its own."""
    with atoll.LocalCluster(root, engine="inline") as one:
        one.deploy(shop())
        with atoll.LocalCluster(root, engine="inline") as two:
            two.deploy(till()).resume()
            info = one.whole.info()
            sources = [each.id for each in info.fragments if each.kind == "source"]
            changes = dict.fromkeys(sources, UnitChange((), (1,)))
            one.whole.reschedule(changes, revision=info.revision)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A root after three lives and a rollback."""
    root = tmp_path_factory.mktemp("rich") / "root"
    for number in range(3):
        life(root, number, last=number == 2)
    try_over_processes(root)
    run_runtime(root)
    with TopologyTestDriver(shop(), root=root, engine="inline") as driver:  # the last plan is cut
        driver.depot("sales").append([{"item": "i1", "price": n} for n in range(20)])
        driver.microbatch("mb")
    with TopologyTestDriver(till(), root=root, engine="inline") as driver:  # what waits for a shop
        driver.run_until_idle()
    share(LocalStore(root))
    return root


def files_of(root):
    """What lasts: the vnode stores in ``local`` are a cache, and compared by ``--stores``."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith("local/"))


def kind_of(name):
    """Which kind of file it is."""
    return [
        kind for kind, form in {**CHECKED, **EMPTY, **LINES}.items() if re.fullmatch(form, name)
    ]


def named(report):
    """The files that a report names, without positions in them."""
    return {each.file.partition(" at byte ")[0] for each in report.findings}


def test_the_root_is_rich_and_every_file_in_it_is_of_a_known_kind(built):
    """It holds every kind that stays after a clean stop, and is sound."""
    kinds = {name: kind_of(name) for name in files_of(built)}
    assert {name: found for name, found in kinds.items() if len(found) != 1} == {}
    stays = {kind for kind in CHECKED if kind != "staged rows"}
    assert {found[0] for found in kinds.values()} - {*EMPTY, *LINES} == stays
    report = check_root(built)
    assert report.is_sound, report.findings


def drawn_places():
    """The places of the tree that the page of microbatches draws, as forms of paths."""
    page = Path(__file__).parents[2] / "docs" / "concepts" / "microbatch.md"
    tree = page.read_text(encoding="utf-8").partition("```text\n<root>/meta/\n")[2]
    folders, forms = ["meta"], []
    for line in tree.partition("```")[0].splitlines():
        if line.startswith("<root>/"):
            folders = [line.removeprefix("<root>/").rstrip("/")]
            continue
        name = line.strip().split()[0]
        depth = (len(line) - len(line.lstrip())) // 4
        if depth == 0 or depth > len(folders):
            continue  # goes on with what the line before says
        folders = [*folders[:depth], name.rstrip("/")]
        if not name.endswith("/") or name == "staging/":
            forms.append("/".join(folders))
    return forms


def pattern_of(form):
    """Of the files that may lie at a drawn place; later timelines lie beside the first one."""
    parts = []
    for part in form.split("/"):
        match part:
            case "<n>" | "<id>":
                parts.append(NUMBER)
            case "<n>.seg":
                parts.append(NUMBER + r"\.seg")
            case "...":
                parts.append(".+")
            case "plans" | "revisions" | "attempts" | "commits":
                parts.append(part + r"(-\d+)?")
            case _:
                parts.append(r"[\w-]+" if part.startswith("<") else re.escape(part))
    return "/".join(parts)


def test_the_page_of_microbatches_draws_a_root_as_it_is(built):
    """Every file lies at a place of the tree, and every place but passing ones holds a file."""
    passing = ["meta/identity", "local/exchange/...", "local/filling/..."]  # elsewhere, or gone
    passing += ["<module>/depots/<depot>/staging", "<module>/<topology>/pins/..."]
    passing += ["<module>/<topology>/staged/..."]
    forms = drawn_places()
    assert set(passing) <= set(forms)
    patterns = {form: re.compile(pattern_of(form)) for form in forms}
    files = [path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()]
    found = {name: [form for form in forms if patterns[form].fullmatch(name)] for name in files}
    assert {name: at for name, at in found.items() if len(at) != 1} == {}
    assert {at[0] for at in found.values()} | set(passing) == set(forms)


def test_a_flipped_byte_in_any_file_is_named(built, tmp_path):
    """In a middle byte, and in the first and last of the newest of a kind in its folder.

    What nobody needs is named as left over.
    A damage shows as the file's own, or as what follows from it: a depot that ends too early.
    """
    root = shutil.copytree(built, tmp_path / "root")
    missed = []
    names = [each for each in files_of(root) if kind_of(each)[0] not in LINES]
    newest = {name.rpartition("/")[0]: name for name in names}.values()
    for name in names:
        path = root / name
        whole = path.read_bytes()
        ends = {0, len(whole) - 1} if name in newest else set()
        for at in sorted({len(whole) // 2, *ends}) if whole else ():
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
            found = named(check_root(root))
            depot = name.partition("/segments/")[0]
            if name not in found and depot not in found:
                missed.append((name, at))
        path.write_bytes(whole)
    assert missed == []


@pytest.mark.parametrize("depot", ["sales", "dear"])
def test_a_start_with_a_damaged_claim_says_which_depot_and_file(built, tmp_path, depot):
    """And what to do about it, which works."""
    root = shutil.copytree(built, tmp_path / "root")
    (root / "meta/identity").unlink()  # so that what the test caches lies in its own folder
    claim = max((root / f"shop/depots/{depot}/writers").iterdir())
    claim.write_bytes(claim.read_bytes()[:-1] + b"\xff")
    with atoll.LocalCluster(root, engine="inline") as cluster:
        with pytest.raises(DamageError, match=f"who writes depot '{depot}'") as raised:
            cluster.deploy(shop())
        assert raised.value.context == {"depot": depot, "file": str(claim)}
    claim.unlink()
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(shop())
        before = app.topology("mb").status()["processed"]
        app.depot("sales").append([{"item": "i1", "price": 1}])
        app.topology("mb").wait_processed(before + 1)
    assert check_root(root).is_sound


def test_an_identity_of_an_earlier_version_is_as_good(tmp_path):
    """It had no checksum; one that is too short is damaged."""
    store = LocalStore(tmp_path)
    store.create("meta/identity", bytes(range(16)))
    check_identity(store)
    assert RootFolders.of(store).identity == share(store).identity is not None
    (tmp_path / "meta/identity").write_bytes(bytes(15))
    with pytest.raises(DamageError) as raised:
        check_identity(store)
    assert raised.value.context["file"] == "meta/identity"
