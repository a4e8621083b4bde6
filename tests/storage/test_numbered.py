"""Numbered objects: order, the cheap look at the latest, and damage told for every byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_store import MemoryStore

from atoll.errors import DamageError, NotFoundError, UsageError
from atoll.storage import LocalStore, NumberedObjects, ObjectExistsError


@pytest.fixture
def objects() -> NumberedObjects:
    """An empty sequence."""
    return NumberedObjects(MemoryStore(), "commits")


def test_sequence(objects: NumberedObjects) -> None:
    """Numbers are taken once, listed in order, and read back."""
    assert objects.latest() is None
    assert objects.latest(hint=3) is None
    for number in (1, 2, 10):
        objects.create(number, f"payload {number}".encode())
    assert objects.numbers() == [1, 2, 10]
    assert objects.numbers(from_number=2) == [2, 10]
    assert objects.latest() == 10
    assert objects.read(2) == b"payload 2"
    assert objects.exists(10)
    assert not objects.exists(3)
    with pytest.raises(ObjectExistsError):
        objects.create(2, b"")
    with pytest.raises(NotFoundError):
        objects.read(3)


def test_latest_with_a_hint_lists_nothing(objects: NumberedObjects) -> None:
    """With a hint the next numbers are probed; far behind, or with a stale one, it lists."""
    for number in range(1, 200):
        objects.create(number, b"")
    listed = []
    original = objects.numbers

    def numbers(from_number: int = 0) -> list[int]:
        listed.append(from_number)
        return original(from_number)

    objects.numbers = numbers  # type: ignore[method-assign]
    assert objects.latest(hint=199) == 199
    assert objects.latest(hint=190) == 199
    assert listed == []
    assert objects.latest(hint=5) == 199
    assert objects.latest(hint=500) == 199
    assert len(listed) == 2


def test_delete_below_goes_from_the_lowest(objects: NumberedObjects) -> None:
    """Deleting begins with the lowest, so a crash leaves no gap."""
    for number in range(1, 6):
        objects.create(number, b"")
    deleted = []
    objects.store.delete = deleted.append  # type: ignore[method-assign]
    assert objects.delete_below(4) == [1, 2, 3]
    assert deleted == [objects.name(number) for number in (1, 2, 3)]


def test_other_files_are_no_numbers(objects: NumberedObjects) -> None:
    """Names that are not twenty digits do not count."""
    objects.store.write("commits/readme", b"")
    objects.store.write("commits/" + "1" * 19, b"")
    assert objects.numbers() == []


@pytest.mark.parametrize("number", [-1, 10**20])
def test_numbers_out_of_range(objects: NumberedObjects, number: int) -> None:
    """Numbers that twenty digits cannot name are refused."""
    with pytest.raises(UsageError):
        objects.create(number, b"")


def test_every_damaged_byte_and_length_is_told(tmp_path: Path) -> None:
    """A flip of any bit-pattern in any byte, any truncation and any growth is damage, by name."""
    objects = NumberedObjects(LocalStore(tmp_path), "plans")
    objects.create(7, b"some payload")
    path = tmp_path / objects.name(7)
    whole = path.read_bytes()
    wrong = [whole[:cut] for cut in range(len(whole))] + [whole + b"\0"]
    for at in range(len(whole)):
        flipped = [bytes([whole[at] ^ mask]) for mask in (0x01, 0x80, 0xFF)]
        wrong += [whole[:at] + byte + whole[at + 1 :] for byte in flipped]
    for data in wrong:
        path.write_bytes(data)
        with pytest.raises(DamageError) as caught:
            objects.read(7)
        assert caught.value.context["file"] == objects.name(7)
    path.write_bytes(whole)
    assert objects.read(7) == b"some payload"


def test_swapped_files_are_damage(tmp_path: Path) -> None:
    """An object under another number's name is told, though its bytes are whole."""
    objects = NumberedObjects(LocalStore(tmp_path), "plans")
    objects.create(1, b"one")
    (tmp_path / objects.name(1)).rename(tmp_path / objects.name(2))
    with pytest.raises(DamageError):
        objects.read(2)
