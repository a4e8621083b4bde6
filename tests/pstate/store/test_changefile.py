"""Holds that change files give back what was written, and that damage is named, never served."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import DamageError
from atoll.pstate.store import changefile
from atoll.pstate.store.changefile import ChangeFile, write_change_file
from atoll.storage.local import LocalStore

ENTRIES = st.dictionaries(
    st.binary(min_size=1, max_size=12), st.none() | st.binary(max_size=20), max_size=12
)
PARTS = st.dictionaries(st.integers(0, 40), ENTRIES, max_size=6)


def as_parts(content):
    """The parts of a file for {vnode: {key: value}}."""
    return [
        (vnode, sorted(entries), [entries[key] for key in sorted(entries)])
        for vnode, entries in sorted(content.items())
    ]


@given(PARTS, st.sampled_from([1 << 30, 40, 1]))
def test_round_trip(tmp_path_factory, content, batch_bytes):
    """Every vnode reads back its own entries, however the file is cut into batches."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changefile, "_BATCH_BYTES_MAX", batch_bytes)
        ref = write_change_file(LocalStore(folder), "a/b.arrow", as_parts(content))
    file = ChangeFile(folder / ref.name, ref)
    assert ref.rows == sum(map(len, content.values()))
    assert file.vnodes() == sorted(vnode for vnode, entries in content.items() if entries)
    for vnode in range(42):
        entries = content.get(vnode, {})
        assert file.read(vnode) == (sorted(entries), [entries[key] for key in sorted(entries)])


def test_any_arrow_tool_reads_it(tmp_path):
    """It is an ordinary Arrow IPC file."""
    ref = write_change_file(LocalStore(tmp_path), "x.arrow", [(3, [b"a", b"b"], [b"1", None])])
    with pa.ipc.open_file(tmp_path / ref.name) as reader:
        assert reader.read_all().to_pydict() == {
            "vnode": [3, 3],
            "key": [b"a", b"b"],
            "value": [b"1", None],
        }


@pytest.mark.parametrize("harm", ["missing", "short", "flipped", "long"])
def test_damage_names_the_file(tmp_path, harm):
    """Missing, truncated, changed, grown: an error with the file's name."""
    ref = write_change_file(LocalStore(tmp_path), "x.arrow", [(0, [b"a"], [b"1"])])
    path = tmp_path / ref.name
    data = path.read_bytes()
    path.unlink()
    if harm == "short":
        path.write_bytes(data[:-1])
    elif harm == "long":
        path.write_bytes(data + b"x")
    elif harm == "flipped":
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(DamageError) as caught:
        ChangeFile(path, ref)
    assert caught.value.context["file"] == "x.arrow"
