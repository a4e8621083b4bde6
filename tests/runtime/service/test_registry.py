"""The registry of runtimes: names, lives, and two processes that change at once."""

from __future__ import annotations

import pytest

from atoll.errors import DamageError
from atoll.runtime.service.registry import Registry, RuntimeChange, free_name
from atoll.storage.local import LocalStore


@pytest.mark.parametrize(
    ("wanted", "taken", "given"),
    [
        ("name", [], "name"),
        ("name", ["name"], "name2"),
        ("runtime1", ["runtime1"], "runtime2"),
        ("name1", ["name1", "name2", "name3"], "name4"),
        ("1234", ["1234"], "1235"),
        ("name", ["name", "name2", "name4"], "name3"),
    ],
)
def test_case_26_a_name_once_used_gets_a_number(wanted, taken, given):
    """Coral's examples, and a gap is used."""
    assert free_name(wanted, taken) == given


def made(name, number=0):
    """Decides to make a runtime."""
    return lambda known: RuntimeChange(
        "created", f"id-{name}", number, "coral", name, {"name": name}, 1
    )


def test_what_there_is_follows_from_the_changes_alone(tmp_path):
    """Another process sees the same; a deleted runtime is known for ever."""
    store = LocalStore(tmp_path)
    registry = Registry(store)
    first = registry.change(made("a"))
    assert (first.status, first.unique_name, first.revision) == ("created", "coral-a", 1)
    registry.change(lambda _: RuntimeChange("started", "id-a", 5))
    scaled = registry.change(lambda _: RuntimeChange("scaled", "id-a", 6, copies=3, drop=True))
    assert (scaled.status, scaled.copies, scaled.copies_before) == ("running", 3, 1)
    registry.change(lambda _: RuntimeChange("deleted", "id-a", 7))
    assert Registry(store).all() == registry.all()
    assert registry.all()["id-a"].status == "deleted"


def test_two_that_change_at_once_take_different_numbers(tmp_path):
    """The second looks again before it decides: it never overwrites."""
    store = LocalStore(tmp_path)
    mine, other = Registry(store), Registry(store)
    seen = []

    def decide(known):
        seen.append(sorted(known))
        if not known:
            other.change(made("b"))
        return made("a")(known)

    assert mine.change(decide).revision == 2
    assert seen == [[], ["id-b"]]
    assert sorted(other.all()) == ["id-a", "id-b"]


def test_a_change_that_cannot_be_followed_is_damage(tmp_path):
    """A missing object is named, never skipped."""
    store = LocalStore(tmp_path)
    registry = Registry(store)
    registry.change(made("a"))
    registry.change(lambda _: RuntimeChange("started", "id-a", 5))
    (tmp_path / "meta" / "runtimes" / f"{1:020d}").write_bytes(b"x")
    with pytest.raises(DamageError):
        Registry(store).all()
