"""Sentences of RisingWave's documentation that no other test holds."""

from __future__ import annotations

import atoll
from atoll import Map, agg, start
from atoll.placement.reschedule.change import UnitChange


def stores(root):
    """The files of all vnode stores: which ones they are, and what they hold."""
    files = (root / "local" / "state").rglob("data.mdb")
    return {str(file): (file.stat().st_ino, file.read_bytes()) for file in files}


def test_a_reschedule_moves_no_bytes_of_a_store_on_one_host(tmp_path):
    """Who reads and writes a vnode is another one; its store is the same file, untouched."""
    module = atoll.Module("shop")
    depot = module.depot("d", "k long", partition_by="k")
    mb = module.microbatch("mb", vnode_count=8)
    source = mb.source(depot, start_from=start.beginning())
    source.aggregate(mb.pstate("counts", Map(int, int))["k"], agg.count())
    with atoll.LocalCluster(tmp_path, engine="inline", parallelism=4) as cluster:
        app = cluster.deploy(module)
        app.wait(app.depot("d").append([{"k": key} for key in range(100)]))
        app.pause()
        before = stores(tmp_path)
        assert len(before) == 8
        info = app.cluster.info()
        (fragment,) = [each.id for each in info.fragments if each.kind == "hash"]
        change = {fragment: UnitChange(added=(), removed=(0, 1, 2))}
        assert app.cluster.reschedule(change, revision=info.revision).vnodes_moved == 6
        assert stores(tmp_path) == before
        app.resume()
        app.wait(app.depot("d").append([{"k": key} for key in range(100)]))
        assert {name: inode for name, (inode, _) in stores(tmp_path).items()} == {
            name: inode for name, (inode, _) in before.items()
        }
        assert app.topology("mb").status()["opened"] == {"current": 8}
        assert app.pstate("counts").get() == dict.fromkeys(range(100), 2)
