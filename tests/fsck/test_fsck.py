"""``atoll fsck`` finds every damage of a root, names the file and says what it costs."""

from __future__ import annotations

import json
import shutil

import lmdb
import msgspec
import pytest
from typer.testing import CliRunner

import atoll
from atoll import Map, agg
from atoll.cli.app import app as command_line
from atoll.errors import NotFoundError
from atoll.fsck import topology
from atoll.fsck.root import check_root
from atoll.microbatch.commits.history import latest_commit, read_commit
from atoll.microbatch.epochs import claim_epoch
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects

MICROBATCHES = 12


def _module():
    module = atoll.Module("shop")
    orders = module.depot("orders", "k long, v long", partitions=2, partition_by="k")
    mb = module.microbatch(
        "mb",
        vnode_count=4,
        options={
            "pstate.history.seconds": 0,
            "pstate.checkpoint.interval.commits": 5,
            "pstate.history.microbatches": 3,
        },
    )
    sums = mb.pstate("sums", Map(int, int))
    mb.source(orders).aggregate(sums["k"], agg.sum("v"))
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A root with a dozen microbatches, checkpoints and dropped commits."""
    root = tmp_path_factory.mktemp("root")
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(_module())
        for number in range(MICROBATCHES):
            app.depot("orders").append([{"k": key, "v": number} for key in range(20)])
            app.topology("mb").wait_processed(20 * (number + 1))
    return root


@pytest.fixture
def built_with_appends(tmp_path):
    """A root whose last microbatch appended rows to another depot."""
    module = _module()
    dear = module.depot("dear", "k long, v long", partitions=1)
    module.topologies["mb"].source(module.depots["orders"]).append_to(dear)
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("orders").append([{"k": key, "v": 1} for key in range(20)])
        app.topology("mb").wait_processed(20)
    return tmp_path


@pytest.fixture
def root(built, tmp_path):
    """A copy to damage."""
    return shutil.copytree(built, tmp_path / "copy")


def _last(root):
    return latest_commit(LocalStore(root), "shop", "mb")


def _flip(path, at=-10):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def _damages(root, **options):
    return list(check_root(root, **options).damages())


def test_a_sound_root_has_no_damage_and_all_of_it_was_looked_at(root):
    """Objects, files, segments and stores are counted; nothing is found."""
    report = check_root(root, stores=True)
    assert report.is_sound, report.findings
    last = _last(root)
    assert last.id >= MICROBATCHES
    assert report.objects >= 2 * (last.id - last.floor + 1)
    assert report.files >= last.id - last.floor
    assert report.segments >= 1
    assert report.stores == 4
    assert report.bytes > 0


def test_a_log_that_a_rebuild_needs_costs_its_vnodes(root):
    """The newest log's damage names the vnodes whose only copy is local."""
    log = _last(root).pstates["sums"].logs[0][0]
    _flip(root / log.file.name)
    (damage,) = _damages(root)
    assert damage.file == log.file.name
    assert "checksum" in damage.what
    assert "cannot be rebuilt" in damage.cost
    assert all(str(vnode) in damage.cost for vnode in log.vnodes)


def test_a_log_that_a_later_checkpoint_covers_costs_only_the_past(root):
    """An old log is named, and the newest state is said to be safe."""
    last, store = _last(root), LocalStore(root)
    covered = None
    newest = {
        vnode: checkpoint_id
        for commit_id in range(last.floor, last.id + 1)
        for file in read_commit(store, "shop", "mb", commit_id).pstates["sums"].checkpoints
        for vnode, checkpoint_id in zip(file.vnodes, file.ids, strict=True)
    }
    for commit_id in range(last.floor, last.id + 1):
        for log in read_commit(store, "shop", "mb", commit_id).pstates["sums"].logs[0]:
            if all(newest.get(vnode, 0) >= commit_id for vnode in log.vnodes):
                covered = log
    assert covered is not None
    _flip(root / covered.file.name)
    (damage,) = _damages(root)
    assert damage.file == covered.file.name
    assert "newest state is safe" in damage.cost


@pytest.mark.parametrize("kind", ["commits", "plans", "epochs", "deployments"])
def test_a_damaged_object_is_named(root, kind):
    """One bit in the newest object of each kind."""
    folder = root / "shop" / ("mb" if kind in ("commits", "plans") else "") / kind
    path = max(folder.iterdir())
    _flip(path, -1)
    damages = _damages(root)
    assert any(path.name in damage.file for damage in damages), damages
    assert all(damage.cost for damage in damages)


def test_a_missing_commit_and_a_missing_log_are_named(root):
    """Deleted by hand: the topology cannot go on, or vnodes cannot be rebuilt."""
    last = _last(root)
    (root / "shop/mb/commits" / f"{last.id - 1:020d}").unlink()
    log = last.pstates["sums"].logs[0][0].file.name
    (root / log).unlink()
    costs = {damage.file: damage.cost for damage in _damages(root)}
    assert any(f"{last.id - 1:020d}" in file and "cannot go on" in costs[file] for file in costs)
    assert log in costs


def test_a_damaged_depot_block_is_named_with_its_position(root):
    """A flip in the middle of a segment's frames."""
    segments = (root / "shop/depots/orders").rglob("*.seg")
    segment = max(segments, key=lambda path: path.stat().st_size)
    _flip(segment, -30)
    damages = _damages(root)
    assert any(segment.name in damage.file and "byte" in damage.file for damage in damages)


def test_a_store_with_a_flipped_value_is_found_only_by_comparing(root):
    """LMDB has no checksums: the log tells."""
    folder = root / "local/state/shop/sums/1"
    with lmdb.open(str(folder), max_dbs=4, lock=True) as environment:
        names = [bytes(key) for key, _ in environment.begin().cursor()]
        data = environment.open_db(next(name for name in names if name.startswith(b"d")))
        with environment.begin(write=True, db=data) as transaction:
            key, value = next(iter(transaction.cursor()))
            changed = bytes([value[0] ^ 1]) + bytes(value[1:])
            transaction.put(bytes(key), changed)
    assert _damages(root) == []
    (damage,) = _damages(root, stores=True)
    assert damage.file == str(folder)


def test_files_that_nobody_names_are_leftovers_and_no_damage(root):
    """A log of a dead attempt, and an unfinished file."""
    stray = root / "shop/mb/logs/sums" / f"{2:020d}-0-stray.arrow"
    stray.write_bytes(b"x")
    (root / "shop/mb/commits/.tmp-0123").write_bytes(b"half")
    report = check_root(root)
    assert report.is_sound
    left = {each.file for each in report.findings if each.severity == "leftover"}
    assert left == {"shop/mb/commits/.tmp-0123", stray.relative_to(root).as_posix()}


def test_the_command_prints_findings_and_its_exit_code_tells(root):
    """0 when sound, 1 when damaged; JSON on request."""
    runner = CliRunner()
    sound = runner.invoke(command_line, ["fsck", str(root)])
    assert sound.exit_code == 0, sound.output
    assert "sound" in sound.stderr
    log = _last(root).pstates["sums"].logs[0][0]
    _flip(root / log.file.name)
    damaged = runner.invoke(command_line, ["fsck", str(root), "--output", "json"])
    assert damaged.exit_code == 1
    found = json.loads(damaged.stdout)
    assert not found["sound"]
    assert found["findings"][0]["file"] == log.file.name


def test_after_a_rollback_the_new_timeline_is_what_is_checked(root):
    """Objects of both lines are read, and a damage on the new one is found."""
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(_module())
        topology = app.topology("mb")
        back = topology.status()["committed"] - 2
        topology.rollback(to_microbatch=back)
        topology.resume()
        topology.wait_processed(20 * MICROBATCHES)
    report = check_root(root, stores=True)
    assert report.is_sound, report.findings
    last = _last(root)
    assert last.timeline == 1
    commit = root / "shop/mb/commits-1" / f"{last.id:020d}"
    whole = commit.read_bytes()
    _flip(commit, -1)
    assert any(commit.name in damage.file for damage in _damages(root))
    commit.write_bytes(whole)
    timeline = root / "shop/mb/timelines" / f"{1:020d}"
    _flip(timeline, -1)
    assert any("timelines" in damage.file for damage in _damages(root))


def test_a_folder_without_a_module_is_refused(tmp_path):
    """A wrong folder must not pass for a sound one."""
    with pytest.raises(NotFoundError, match="no module"):
        check_root(tmp_path)


def test_what_is_dropped_while_it_is_looked_at_is_not_missed(built_with_appends, monkeypatch):
    """Beside a running module: the files of commits that fell below the floor, segments, lives."""
    root = built_with_appends
    for path in (root / "shop/mb/appends").iterdir():
        path.unlink()
    assert {each.what.partition(":")[0] for each in _damages(root)} == {"it cannot be read"}
    last = _last(root)
    moments = iter([last])
    later = msgspec.structs.replace(last, floor=last.id + 1)
    monkeypatch.setattr(topology, "latest_commit", lambda *_: next(moments, later))
    store, numbers = LocalStore(root), NumberedObjects.numbers
    for _ in range(2):
        claim_epoch(store, "shop")
    NumberedObjects(store, "shop/epochs").delete_below(3)

    def of_two_moments(objects, *arguments):
        """The folder was read while what lies between was dropped."""
        found = numbers(objects, *arguments)
        return [found[0] - 2, *found] if objects.prefix.endswith("epochs") else found

    monkeypatch.setattr(NumberedObjects, "numbers", of_two_moments)
    assert _damages(root) == []


def test_stores_are_not_compared_with_a_commit_that_cannot_be_read(root):
    """The damage is reported, whatever else was asked for."""
    path = max((root / "shop/mb/commits").iterdir())
    _flip(path)
    found = [each.file for each in _damages(root, stores=True)]
    assert found == [path.relative_to(root).as_posix()]
