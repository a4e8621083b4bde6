"""Where a root may lie: URLs are taken apart, and those that could hold a secret are refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from atoll.errors import UsageError
from atoll.storage.buckets.cache import ObjectCache
from atoll.storage.places import BucketPlace, place_of


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bkt", BucketPlace("s3://bkt")),
        ("s3://bkt/a/b/", BucketPlace("s3://bkt", "a/b")),
        ("S3A://bkt/a", BucketPlace("s3://bkt", "a")),
        ("gcs://bkt/a", BucketPlace("gs://bkt", "a")),
        ("abfs://box/a", BucketPlace("az://box", "a")),
    ],
)
def test_urls(url: str, place: BucketPlace) -> None:
    """Each has one spelling, is extended by / and survives pickling."""
    found = place_of(url)
    assert found == place
    assert place_of(str(found)) == found
    below = pickle.loads(pickle.dumps(found / "m" / "depots"))
    assert isinstance(below, BucketPlace)
    assert str(below) == f"{found}/m/depots"
    assert below.top == found
    assert below.prefix.endswith("m/depots/")


def test_folders_are_paths(tmp_path: Path) -> None:
    """Whatever is no URL, resolved."""
    assert place_of(str(tmp_path / "a" / ".." / "b")) == tmp_path / "b"
    assert place_of(tmp_path) == tmp_path


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:s3cret@bkt/a",
        "s3://bkt/a?secret=s3cret",
        "ftp://bkt/s3cret",
        "s3:///s3cret",
        "s3://bkt/a//s3cret",
        "s3://bkt/../s3cret",
    ],
)
def test_urls_that_cannot_be(url: str) -> None:
    """They are refused, and what may be a secret is not repeated."""
    with pytest.raises(UsageError) as raised:
        place_of(url)
    if "@" in url or "?" in url:
        assert "s3cret" not in str(raised.value)


def test_the_cache_forgets_what_was_asked_for_longest_ago(tmp_path: Path) -> None:
    """It stays within its bytes, but for what was asked for just now."""
    cache = ObjectCache(tmp_path, bytes_max=1000)
    for number in range(20):
        path = cache.add(f"m/{number:02d}", bytes(100))
        os.utime(path, (number, number))
    recent = cache.add("m/recent", bytes(200))
    assert recent.exists()
    assert sum(each.stat().st_size for each in tmp_path.rglob("*") if each.is_file()) <= 1200
    assert cache.find("m/00") is None
    assert cache.find("m/19") is not None
