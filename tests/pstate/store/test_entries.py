"""Holds that entries of any key length behave as one sorted dict."""

from __future__ import annotations

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.errors import DamageError
from atoll.pstate.store.entries import Bounds, Entries

PREFIXES = [b"a", b"p" * 479, b"p" * 480, b"p" * 480 + b"\xff" * 17, b"q" * 500]
KEYS = st.builds(
    bytes.__add__, st.sampled_from(PREFIXES), st.binary(max_size=3) | st.just(b"\xff" * 40)
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One LMDB environment for all examples; each aborts its transaction."""
    with lmdb.open(str(tmp_path_factory.mktemp("lmdb")), max_dbs=1, map_size=1 << 26) as opened:
        yield opened, opened.open_db(b"data")


@settings(deadline=None)
@given(
    st.dictionaries(KEYS, st.binary(max_size=5), max_size=30),
    st.lists(KEYS, max_size=5),
    st.none() | KEYS,
    st.none() | KEYS,
    st.booleans(),
    st.integers(1, 7),
)
def test_as_a_sorted_dict(environment, content, gone, low, high, reverse, page_entries):
    """Puts, gets, deletes and paged range scans agree with a dict, also for long keys."""
    opened, table = environment
    with opened.begin(write=True) as transaction:
        entries = Entries(transaction, table)
        keys = sorted(content)
        entries.put_many(keys, [content[key] for key in keys])
        entries.put_many(sorted(set(gone)), [None] * len(set(gone)))
        left = {key: value for key, value in content.items() if key not in gone}
        assert entries.get_many(keys) == [left.get(key) for key in keys]
        wanted = [
            (key, left[key])
            for key in sorted(left, reverse=reverse)
            if (low is None or key >= low) and (high is None or key < high)
        ]
        bounds = Bounds(low, high, reverse)
        assert list(entries.scan(bounds)) == wanted
        found, after = [], None
        while True:
            page = entries.page(bounds, after, page_entries)
            found += page.pairs
            after = page.after
            if after is None:
                break
        assert found == wanted
        transaction.abort()


def test_very_long_keys_keep_their_order(environment):
    """Keys of 64 KiB that differ in their last bytes only."""
    opened, table = environment
    with opened.begin(write=True) as transaction:
        entries = Entries(transaction, table)
        keys = [b"k" * 65_536 + bytes([last]) for last in range(20)]
        entries.put_many(keys[::-1], [bytes([key[-1]]) for key in keys[::-1]])
        entries.put(b"k" * 480, b"short")
        assert [key for key, _ in entries.scan(Bounds())] == [b"k" * 480, *keys]
        part = entries.scan(Bounds(keys[5], keys[8]))
        assert [value for _, value in part] == [b"\5", b"\6", b"\7"]
        assert entries.get(keys[3]) == b"\3"
        entries.delete(keys[3])
        assert entries.get(keys[3]) is None
        transaction.abort()


def test_wrong_key_under_a_digest_is_damage(environment):
    """The rest of a long key is compared, not believed."""
    opened, table = environment
    with opened.begin(write=True) as transaction:
        entries = Entries(transaction, table)
        entries.put(b"k" * 600, b"value")
        (stored, _), *_ = transaction.cursor(table)
        transaction.put(stored, b"\x01\x00\x00\x00xvalue", db=table)
        with pytest.raises(DamageError):
            entries.get(b"k" * 600)
        transaction.abort()
