"""A10: a music catalogue whose module is replaced by another version while it runs."""

from __future__ import annotations

import re

import pytest

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


FEATURING = re.compile(r"\s*\b(?:ft|feat)\b\.*\s*")


def read_song(song):
    """Its name and who is featured; what was read already stays as it is."""
    if not isinstance(song, str):
        return song
    name, *featured = FEATURING.split(song, maxsplit=1)
    return {
        "name": name,
        "featured": [each.strip() for text in featured for each in text.split(",")],
    }


def read_album(album):
    """An album of the first version as one of the second."""
    return {"name": album["name"], "songs": [read_song(song) for song in album["songs"]]}


def add_album(row, albums):
    """The second version reads the songs when the album comes."""
    albums[row.artist][row.name] = read_album({"name": row.name, "songs": row.songs})


def make_second_version(shape):
    """Songs with those who are featured; what is stored is read by the same function."""
    module = atoll.Module("MusicCatalogModules")
    albums = module.depot(
        "albums",
        "artist string, name string, songs array<string>",
        partition_by="artist",
        partitions=shape.partitions,
    )
    mb = module.microbatch("albums", vnode_count=shape.vnodes)
    song = Struct(name=str, featured=List(str))
    catalogue = mb.pstate("albums", Map(str, Map(str, Struct(name=str, songs=List(song)))))
    catalogue.migrated("parse-song-data", read_album)

    mb.source(albums).process(add_album, key="artist", states=[catalogue])
    return module


@pytest.mark.parametrize(
    ("song", "name", "featured"),
    [
        ("Have The Heart ft. Dolly Parton", "Have The Heart", ["Dolly Parton"]),
        ("White feat. John Mayer", "White", ["John Mayer"]),
        ("A feat B, C ,D", "A", ["B", "C", "D"]),
        ("Feathers", "Feathers", []),
        ("Lift Off", "Lift Off", []),
    ],
)
def test_songs_are_read(song, name, featured):
    """Once or twice: what was read is left alone."""
    once = read_song(song)
    assert once == {"name": name, "featured": featured}
    assert read_song(once) == once


def test_the_update(run, shape):
    """Stored songs show as read at once; the processed count goes on."""
    run.deploy(make_module(shape)).cut()
    song = "Have The Heart ft. Dolly Parton"
    run.app.depot("albums").append(
        {"artist": "Post Malone", "name": "F-1 Trillion", "songs": [song]}
    )
    run.app.topology("albums").wait_processed(1)
    assert run.app.pstate("albums").select_one(ALBUM.field("songs").first()) == song

    run.update(make_second_version(shape))
    first = ALBUM.field("songs").first()
    wanted = {"name": "Have The Heart", "featured": ["Dolly Parton"]}
    assert run.app.pstate("albums").select_one(first) == wanted
    run.disturb()
    run.app.depot("albums").append(
        {"artist": "Frank Ocean", "name": "Channel Orange", "songs": ["White feat. John Mayer"]}
    )
    run.app.topology("albums").wait_processed(2)
    state = run.app.pstate("albums")
    added = state.get("Frank Ocean", "Channel Orange")["songs"]
    assert added == [{"name": "White", "featured": ["John Mayer"]}]
    assert state.select_one(first) == wanted
