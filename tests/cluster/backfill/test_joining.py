"""What the commit says that brings filled PStates in, and the files that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

import atoll
import atoll.microbatch.commits.objects
from atoll import LocalCluster, agg, path, start
from atoll.fsck.root import check_root
from atoll.microbatch.commits.checkpoints import Checkpoints, Entry
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.joining import files_named, filled_by, taken_in
from atoll.microbatch.commits.objects import (
    GENESIS,
    CheckpointFile,
    LogFile,
    PStateCommit,
    pack_ids,
    unpack_ids,
)
from atoll.pstate.store.history import FileRef
from atoll.storage.local import LocalStore
from atoll.storage.objects import ObjectExistsError


def file(name):
    """A file of that name."""
    return FileRef(name, 1, 1, 1)


def commit(number, touched, *logs):
    """A commit of one PState of three vnodes."""
    part = PStateCommit(pack_ids(touched), [[LogFile(file(n), list(v)) for n, v in logs]], [])
    return atoll.microbatch.commits.objects.Commit(
        **{
            **{name: getattr(GENESIS, name) for name in GENESIS.__struct_fields__},
            "id": number,
            "pstates": {"p": part},
        }
    )


def test_the_newest_checkpoints_and_the_logs_after_them():
    """From the first on that one of them needs: whoever is further gets all of them again."""
    commits = [
        commit(7, [7, 7, 7], ("log7", (0, 1, 2))),
        commit(8, [7, 8, 8], ("log8", (1, 2))),
        commit(9, [7, 8, 9], ("log9", (2,))),
    ]
    old, new = Entry(7, file("old"), (7,)), Entry(8, file("new"), (8,))
    known = Checkpoints({"p": ((old,), (old, new), (new,))})
    (part,) = taken_in(filled_by(commits, known), 100).values()
    assert unpack_ids(part.touched) == [100, 100, 100]
    assert part.since == 100
    assert part.checkpoints == [
        CheckpointFile(file("old"), [0], [100]),
        CheckpointFile(file("new"), [1, 2], [100, 99]),
    ]
    assert part.logs == [[LogFile(file("log9"), [2])]]
    (bare,) = taken_in(filled_by(commits, Checkpoints({"p": ((old,), (old, new), ())})), 5).values()
    assert [log.file.name for job in bare.logs for log in job] == ["log7", "log8", "log9"]
    assert [each for c in bare.checkpoints for each in c.ids] == [4, 4]
    (named,) = files_named({"p": part}, lambda ref: file(f"mine/{ref.name}")).values()
    assert [log.file.name for job in named.logs for log in job] == ["mine/log9"]
    assert named.checkpoints[0].file.name == "mine/old"


def build(*, more):
    """Counts by key, and more of them."""
    module = atoll.Module("m")
    rows = module.depot("rows", "k long")
    options = {"depot.microbatch.max.records": 50, "pstate.checkpoint.interval.commits": 3}
    mb = module.microbatch("mb", vnode_count=4, options=options)
    stream = mb.source(rows, start_from=start.beginning())
    names = ["a", "b", "c"] if more else ["a"]
    for name in names:
        state = mb.pstate(name, dict[int, int], backfill=name != "a")
        stream.aggregate(state["k"], agg.count())
    return module


def test_its_files_lie_where_those_of_the_topology_do(tmp_path):
    """Logs and checkpoints apart, whole, tidied with them; the topology that filled is gone."""
    root = tmp_path / "root"
    with LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(build(more=False))
        app.wait(app.depot("rows").append([{"k": n % 37} for n in range(700)]))
        app = cluster.update(build(more=True))
        app.topology("mb").wait_filled()
        joined = app.topology("mb").status()["committed"]
        first = latest_commit(LocalStore(root), "m", "mb")
    assert not check_root(root, stores=True).findings
    parts = [first.pstates[name] for name in "bc"] if first.id == joined else []
    named = [c.file.name for part in parts for c in part.checkpoints]
    assert all(name.startswith("m/mb/checkpoints/") for name in named)
    with LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(build(more=True))
        for turn in range(40):  # beyond what history keeps: its files go as any others
            app.wait(app.depot("rows").append([{"k": n} for n in range(turn, turn + 5)]))
        app.topology("mb").checkpoint()
        shown = [app.pstate(name).select(path.all()) for name in "abc"]
        assert shown[0] == shown[1] == shown[2]
    assert not check_root(root, stores=True).findings
    assert not list(Path(root / "m").glob("_fill*"))


def test_another_object_of_that_name_is_no_link(tmp_path):
    """The same object may be linked again."""
    store = LocalStore(tmp_path)
    for name in ("a", "b"):
        store.write(f"x/{name}", name.encode())
    store.link("x/a", "y/a")
    store.link("x/a", "y/a")
    with pytest.raises(ObjectExistsError):
        store.link("x/b", "y/a")
    store.delete("x/a")
    assert store.read("y/a") == b"a"
