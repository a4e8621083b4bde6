"""Where the parts of a root lie: one host's own folder, or a folder of each host's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from atoll.storage.folders import RootFolders, share
from atoll.storage.local import LocalStore
from atoll.storage.places import LOCAL_VARIABLE


def test_a_root_of_one_host_holds_its_cache(tmp_path, monkeypatch):
    """Also where the variable for shared roots is set."""
    monkeypatch.setenv(LOCAL_VARIABLE, "/elsewhere")
    folders = RootFolders.of(LocalStore(tmp_path))
    assert (folders.root, folders.local, folders.identity) == (tmp_path, tmp_path / "local", None)


def test_a_shared_root_has_one_identity(tmp_path, monkeypatch):
    """Whoever shares it, at whatever time; another root, also at the same place, has another."""
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(lambda _: share(LocalStore(tmp_path / "a")), range(8)))
    assert made == {RootFolders.of(LocalStore(tmp_path / "a"))}
    (folders,) = made
    for file in (tmp_path / "a" / "meta").iterdir():
        file.unlink()
    again = share(LocalStore(tmp_path / "a"))
    assert again.identity not in {None, folders.identity}
    monkeypatch.setenv(LOCAL_VARIABLE, str(tmp_path / "one"))
    one, worker = folders.local, folders.worker
    monkeypatch.setenv(LOCAL_VARIABLE, str(tmp_path / "two"))
    assert len({one, folders.local, again.local}) == 3
    assert worker != folders.worker
    assert one.parent == tmp_path / "one"
    monkeypatch.delenv(LOCAL_VARIABLE)
    assert not folders.local.is_relative_to(tmp_path)


def test_a_damaged_identity_is_an_identity_all_the_same(tmp_path):
    """It names no folder by its own bytes, so nothing can lead out of the base folder."""
    share(LocalStore(tmp_path))
    (tmp_path / "meta" / "identity").write_bytes(b"../../\xff\0")
    assert RootFolders.of(LocalStore(tmp_path)).identity.isalnum()
