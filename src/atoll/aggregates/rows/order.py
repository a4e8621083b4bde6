"""What rows are ordered by: one expression, or several, each of which may fall.

``by="price"``, ``by=["-date_time", "extra"]``: rows go by the first term; where that is equal by
the second, and so on. A term with a minus before it counts the other way round, whatever its type.

One term that does not fall is kept as it is. All others are kept as one binary value, whose bytes
sort as the terms say, so nothing that orders rows need know of terms.

A null in the first term leaves the row out; in a later one it is the least value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.schema import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.aggregates.base import Aggregator, Packing


By = str | Sequence[str]

_NAME = re.compile(r"(`[^`]+`|\w+)(\.(`[^`]+`|\w+))*")
_CALL = re.compile(r"\w*\(")


@dataclass(frozen=True)
class Terms:
    """The terms of an order: their expressions, and which of them fall."""

    exprs: tuple[str, ...]
    falling: tuple[bool, ...]

    @property
    def plain(self) -> bool:
        """Whether the order is the value of one expression."""
        return self.falling == (False,)

    def __str__(self) -> str:
        """As it is written: ``price``; ``[-date_time, extra]``."""
        return order_text(self.exprs, self.falling)


def order_text(exprs: Sequence[str], falling: Sequence[bool]) -> str:
    """An order as users write it."""
    texts = ["-" * fall + expr for expr, fall in zip(exprs, falling, strict=True)]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def order_terms(by: object, word: str) -> Terms:
    """What an order says.

    Raises:
        DeclarationError: When it names nothing, or a minus before an expression could as well be
            its sign.
    """
    from atoll.aggregates.base import expression

    texts = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else [by]
    if not texts:
        raise DeclarationError(
            f"agg.{word} is ordered by nothing", hint='say by what: "price", ["-price", "id"]'
        )
    exprs, falling = [], []
    for text in texts:
        term = expression(text, word).strip()
        falls = term.startswith("-")
        exprs.append(_turned(term, word) if falls else term)
        falling.append(falls)
    return Terms(tuple(exprs), tuple(falling))


def _turned(term: str, word: str) -> str:
    """The expression behind a minus that turns the order."""
    rest = term[1:].strip()
    if _NAME.fullmatch(rest) or (_CALL.match(rest) and _closed_at_end(rest)):
        return rest
    raise DeclarationError(
        f"agg.{word} cannot tell whether {term!r} falls or begins with a negative number",
        hint=f'write "-({rest})" for the other way round, or "({term})" for the value',
    )


def _closed_at_end(text: str) -> bool:
    """Whether the first bracket closes with the text's last character."""
    depth, quoted = 0, ""
    for at, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"`":
            quoted = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                return at == len(text) - 1
    return False


def kind_of_order(
    aggregator: Aggregator, falling: Sequence[bool], types: Sequence[pa.DataType]
) -> Scalar:
    """What the order is kept as.

    Raises:
        DeclarationError: When a term is nothing that can be ordered.
    """
    kinds = [_kind(aggregator, each) for each in types]
    return kinds[0] if tuple(falling) == (False,) else Scalar("bytes", optional=True)


def _kind(aggregator: Aggregator, kind: pa.DataType) -> Scalar:
    from atoll.aggregates.base import in_words
    from atoll.aggregates.kernels.types import accepts
    from atoll.arrow_types import node_of

    node = node_of(kind)
    if isinstance(node, Scalar) and accepts(node, kind):
        return node
    raise aggregator.refusal(
        f"cannot order rows by {in_words(kind)}",
        'order by numbers, times or texts, by several in a list: by=["-at", "id"]',
    )


def order_column(
    columns: Sequence[pa.Array], falling: Sequence[bool], packing: Packing | None
) -> pa.Array:
    """The one column by which rows are ordered; null where the first term is."""
    if tuple(falling) == (False,):
        return columns[0]
    assert packing is not None, "aggregates by an order are bound before they run"
    assert packing.orders is not None, "the codec of keys is there"
    return packing.orders(columns, falling)
