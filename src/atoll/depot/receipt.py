"""What an append gives back: which records it stored where, to wait for what comes of them.

A receipt is plain data and says all in offsets, so it holds in other processes and later lives.
Its token says the same as opaque text, for whoever reads elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Annotated

import msgspec

from atoll.codec.records.refusals import Refusal
from atoll.errors import ReceiptError, kind_of_value

TOKEN_CHARACTERS_MAX = 65_536
"""No token is longer: one of a depot with 4,096 depot partitions has 60,000 characters."""
_VERSION = 1
_MARK = "r"
"""How every token begins, so that it is never taken for a position of a subscription."""
_CRC_BYTES = 4
_NAME_CHARACTERS_MAX = 63


class Receipt(msgspec.Struct, frozen=True):
    """What an append stored: ``app.wait(receipt)`` returns when readers see what came of it.

    Attributes:
        depot: The depot.
        count: How many records.
        offsets: Per depot partition that got any, the first offset and the one after the last.
            Records of other calls never lie in between. Empty for a producer's append that was
            stored so long ago that the offsets are not remembered.
        refusals: The first refused records (only with ``on_invalid="keep"``).
        refused_count: How many were refused in all.
        duplicate: Whether the producer's append was stored before: this call stored nothing, and
            ``count`` is what it holds.
        module: The depot's module.
        behind: Per depot partition an offset behind all its records, where ``offsets`` does not
            tell: then what was appended meanwhile is waited for, too.
    """

    depot: str
    count: int
    offsets: dict[int, tuple[int, int]]
    refusals: list[Refusal] = []
    refused_count: int = 0
    duplicate: bool = False
    module: str = ""
    behind: dict[int, int] = {}

    def __repr__(self) -> str:
        """What and where: ``<receipt of 3 records in depot 'numbers': 0 [4, 7)>``."""
        spans = ", ".join(f"{part} [{start}, {end})" for part, (start, end) in self.offsets.items())
        where = f": {spans}" if spans else ""
        refused = f", {self.refused_count} refused" if self.refused_count else ""
        return f"<receipt of {self.count} records in depot {self.depot!r}{refused}{where}>"

    @property
    def ends(self) -> dict[int, int]:
        """Per depot partition the offset after the last record to wait for."""
        return dict(self.behind) or {part: end for part, (_, end) in self.offsets.items()}

    @property
    def awaited(self) -> Awaited:
        """What whoever waits has to know of it."""
        return Awaited(self.module, self.depot, self.ends)

    @property
    def token(self) -> str:
        """It as opaque text, to wait or to read with elsewhere: ``?after=`` of the service."""
        return self.awaited.token


_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_NAME_CHARACTERS_MAX)]


class Awaited(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Up to where a depot is to be processed.

    Attributes:
        module: The depot's module.
        depot: The depot.
        ends: Per depot partition the offset after the last record.
    """

    module: _Name
    depot: _Name
    ends: dict[_Offset, _Offset]

    @property
    def token(self) -> str:
        """It as opaque text."""
        data = msgspec.msgpack.encode((_VERSION, self))
        data = zlib.crc32(data).to_bytes(_CRC_BYTES, "big") + data
        return _MARK + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_TOKEN = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_AWAITED = msgspec.msgpack.Decoder(Awaited)


def awaited(given: Receipt | Awaited | str) -> Awaited:
    """What is to be waited for, of a receipt or its token.

    Raises:
        ReceiptError: When it is neither.
    """
    match given:
        case Receipt():
            return given.awaited
        case Awaited():
            return given
        case str():
            return _read(given)
    raise ReceiptError(
        f"{kind_of_value(given)} is no receipt",
        hint="give what append returned, or the token of it",
    )


def is_token(text: str) -> bool:
    """Whether a text is meant as a token; it may be a broken one."""
    return text.startswith(_MARK)


def _read(text: str) -> Awaited:
    found = _decoded(text) if is_token(text) and len(text) <= TOKEN_CHARACTERS_MAX else None
    if found is None:
        raise ReceiptError(
            f"{text[:20]!r} is no token of a receipt",
            hint="give the token that the append answered with, whole and unchanged",
        )
    return found


def _decoded(text: str) -> Awaited | None:
    """What a token says; None when it is no token, or was changed."""
    try:
        padded = text[1:].encode("ascii") + b"=" * (-len(text[1:]) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
        version, content = _TOKEN.decode(data[_CRC_BYTES:])
        found = _AWAITED.decode(content) if version == _VERSION else None
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None
    return found if found is not None and found.token == text else None
