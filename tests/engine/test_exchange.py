"""Blobs on their way to an actor: the same after wrapping and parking, gone after the commit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.engine.exchange.blobs import clear, fetch, park, unwrap, wrap
from atoll.errors import StorageError
from atoll.storage.folders import RootFolders
from atoll.storage.places import LOCAL_VARIABLE


@given(st.integers(-1, 2**31 - 1), st.integers(0, 2**63 - 1), st.binary(max_size=99))
def test_a_wrapped_blob_is_what_it_was(tag, sequence, rows):
    """Tag, sequence and rows come back; so does the name of a parked blob."""
    blob = unwrap(pa.py_buffer(wrap(tag, sequence, pa.py_buffer(rows))))
    assert (tag, sequence, rows) == (blob[0], blob[1], blob[2].to_pybytes())
    assert (tag, sequence, "é/x") == unwrap(pa.py_buffer(wrap(tag, sequence, "é/x")))


@pytest.mark.parametrize("identity", [None, "c0ffee"])
def test_a_parked_blob_is_there_until_its_microbatch_is_cleared(tmp_path, monkeypatch, identity):
    """Two tasks never share a file; another microbatch's files stay; a lost one is an error.

    Where several hosts share the root, all of them reach it.
    """
    monkeypatch.setenv(LOCAL_VARIABLE, str(tmp_path / "of this host"))
    folders = RootFolders(tmp_path / "root", identity)
    program = SimpleNamespace(
        root=folders.root, local=folders.local, folders=folders, module="m", topology="t"
    )
    first = park(program, 1, pa.py_buffer(b"one"))
    second = park(program, 1, pa.py_buffer(b"two"))
    other = park(program, 2, pa.py_buffer(b"three"))
    assert [fetch(each).to_pybytes() for each in (first, second)] == [b"one", b"two"]
    clear(program, 1)
    with pytest.raises(StorageError):
        fetch(first)
    assert fetch(other).to_pybytes() == b"three"
    assert (tmp_path / "of this host").exists() is False
    assert Path(other).is_relative_to(folders.root)
