"""Numbered objects: a sequence in which each number is taken once, by whoever comes first.

Plans, commits, cluster revisions and epochs are such sequences. The file is named by the number
(20 digits, so that names sort as numbers do) and framed, so that damage is told by name and never
served: magic, CRC-32, length, payload. The CRC covers the object's name too: a file under another
object's name is damage, be it another number or another sequence.
"""

from __future__ import annotations

import contextlib
import struct
import zlib

from atoll.errors import DamageError, NotFoundError, UsageError
from atoll.storage.objects import ObjectExistsError, ObjectStore, check_name

_FRAME = struct.Struct("<4sIQ")
_MAGIC = b"ATO2"
_MAGIC_OF_NUMBERS = b"ATO1"
"""Older objects, whose CRC covers the number alone."""
_DIGITS = 20
_NUMBER_MAX = 10**_DIGITS - 1
_PROBES_MAX = 64


def number_name(number: int) -> str:
    """The 20 digits that name a number."""
    if not 0 <= number <= _NUMBER_MAX:
        raise UsageError("a number cannot name an object", number=number)
    return f"{number:0{_DIGITS}d}"


class NumberedObjects:
    """The objects of one sequence. It keeps no state, so it can be pickled and shared.

    Args:
        store: Where they lie.
        prefix: The folder of the sequence in the store; nothing else may lie there.
    """

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self.store = store
        self.prefix = check_name(prefix)

    def name(self, number: int) -> str:
        """The object's name in the store."""
        return f"{self.prefix}/{number_name(number)}"

    def create(self, number: int, payload: bytes) -> None:
        """Take the number.

        Raises:
            ObjectExistsError: When it is taken; what is there stays.
        """
        name = self.name(number)
        self.store.create(name, _frame(name, payload))

    def settle(self, number: int) -> None:
        """Make a number durable that somebody else took, before going on from it.

        Raises:
            NotFoundError: When the number is not taken.
        """
        self.store.settle(self.name(number))

    def create_or_find(self, number: int, payload: bytes) -> bytes | None:
        """Take the number, or get what is there, made durable: whoever made it may have died.

        Returns:
            None when the number was free, else the payload that it was taken with.
        """
        try:
            self.create(number, payload)
        except ObjectExistsError:
            self.settle(number)
            return self.read(number)
        return None

    def read(self, number: int) -> bytes:
        """The payload of the number.

        Raises:
            NotFoundError: When the number is not taken.
            DamageError: When the object is not what was created.
        """
        name = self.name(number)
        return _unframe(name, self.store.read(name))

    def exists(self, number: int) -> bool:
        """Whether the number is taken."""
        return self.store.exists(self.name(number))

    def latest(self, hint: int | None = None) -> int | None:
        """The highest number taken, or None.

        Args:
            hint: A number known to be taken before. With it, the next ones are probed instead
                of listing the folder, which costs one system call when nothing is new. Numbers
                must then be taken without gaps.
        """
        if hint is not None and self.exists(hint):
            for number in range(hint, hint + _PROBES_MAX):
                if not self.exists(number + 1):
                    return number
        numbers = self.numbers()
        return numbers[-1] if numbers else None

    def numbers(self, from_number: int = 0) -> list[int]:
        """The numbers taken, from the one given on, in order."""
        found = []
        for name in self.store.list(self.prefix):
            digits = name.removeprefix(f"{self.prefix}/")
            if len(digits) == _DIGITS and digits.isascii() and digits.isdecimal():
                found.append(int(digits))
        return [number for number in found if number >= from_number]

    def delete_below(self, number: int) -> list[int]:
        """Delete all lower numbers, lowest first, so that what is left has no gap at any moment.

        Returns:
            The numbers deleted.
        """
        below = [taken for taken in self.numbers() if taken < number]
        for taken in below:
            with contextlib.suppress(NotFoundError):
                self.store.delete(self.name(taken))
        return below


def _frame(name: str, payload: bytes) -> bytes:
    return _FRAME.pack(_MAGIC, _checksum(name, payload), len(payload)) + payload


def _unframe(name: str, data: bytes) -> bytes:
    reason = None
    if len(data) < _FRAME.size:
        reason = "it is too short"
    else:
        magic, checksum, length = _FRAME.unpack_from(data)
        payload = data[_FRAME.size :]
        covered = {_MAGIC: name, _MAGIC_OF_NUMBERS: name.rsplit("/", 1)[-1]}.get(magic)
        if covered is None:
            reason = "it does not begin as it must"
        elif length != len(payload):
            reason = f"it holds {len(payload)} bytes of {length}"
        elif checksum != _checksum(covered, payload):
            reason = "its checksum does not match"
    if reason is not None:
        raise DamageError(
            f"a stored object is damaged: {reason}",
            hint="restore the file from a backup",
            file=name,
        )
    return payload


def _checksum(name: str, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(name.encode()))
