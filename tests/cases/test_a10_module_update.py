"""A10: a music catalogue whose module is replaced by another version while it runs."""

from __future__ import annotations

import atoll
from atoll import List, Map, Struct, agg, path

ALBUM = path.key("Post Malone", "F-1 Trillion")


def make_module(shape):
    """The first version: songs as they were appended."""
    module = atoll.Module("MusicCatalogModules")
    albums = module.depot(
        "albums",
        "artist string, name string, songs array<string>",
        partition_by="artist",
        partitions=shape.partitions,
    )
    mb = module.microbatch("albums", vnode_count=shape.vnodes)
    catalogue = mb.pstate("albums", Map(str, Map(str, Struct(name=str, songs=List(str)))))

    mb.source(albums).aggregate(
        catalogue["artist"]["name"], name=agg.last("name"), songs=agg.last("songs")
    )
    return module


def test_the_first_version(run, shape):
    """An album is found by artist and name, its songs in their order."""
    run.deploy(make_module(shape)).cut()
    songs = ["Have The Heart ft. Dolly Parton", "Missin' You Like This"]
    run.app.depot("albums").append(
        {"artist": "Post Malone", "name": "F-1 Trillion", "songs": songs}
    )
    run.disturb()
    run.app.topology("albums").wait_processed(1)
    state = run.app.pstate("albums")
    assert state.select_one(path.key("Post Malone").size()) == 1
    assert state.select_one(ALBUM.field("name")) == "F-1 Trillion"
    assert state.select_one(ALBUM.field("songs").first()) == "Have The Heart ft. Dolly Parton"
