"""Values of an older schema become values of the present one while they are read.

A migration changes one leaf of a PState: each value that was stored before it goes through the
user's function. Every vnode has a *generation*, which the commits say: how many migrations its
entries have been through. Values of a vnode that is behind are converted on their way out, so a
migration is seen at once; a microbatch that opens such a vnode for writing rewrites it first.

Null stays null, and the function is not asked. Each step ends in the leaf's stored form, so
reading through two migrations gives what rewriting twice would give.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

from atoll.codec.keys.elements import DATA_END, decode_key
from atoll.codec.values.leaf import LeafCodec
from atoll.errors import AtollError, UserCodeError
from atoll.pstate.migration import Migration
from atoll.pstate.spec import PStateSpec
from atoll.pstate.store.vnode_writer import VnodeWriter


@functools.lru_cache(maxsize=256)
def _loaded(function: bytes) -> Callable[[Any], Any]:
    # It was put there by a deployment, which runs the user's code anyway; never by a client.
    return pickle.loads(function)  # type: ignore[no-any-return]  # noqa: S301


class Converter:
    """Turns stored values of one generation into those of the present one."""

    def __init__(self, spec: PStateSpec, generation: int) -> None:
        self._spec = spec
        self._sole = next(iter(spec.codecs), None) if len(spec.codecs) == 1 else None
        self._steps: dict[tuple[str, ...], list[tuple[Migration, LeafCodec]]] = {}
        later = [each for each in spec.migrations if each.generation > generation]
        for each in later:
            follow = [m for m in later if m.position == each.position]
            after = follow[follow.index(each) + 1 :]
            codec = after[0].before if after else spec.codec(each.position)
            self._steps.setdefault(each.position, []).append((each, codec))

    def __call__(self, key: bytes, value: bytes) -> bytes:
        """The value as it is stored now.

        Raises:
            UserCodeError: When the user's function raises, or what it returns does not fit; the
                key is in the context.
        """
        if key >= DATA_END:
            return value  # a counter beside the data
        position = self._position(key)
        for migration, codec in self._steps.get(position, ()) if position is not None else ():
            before = migration.before.decode(value)
            if before is None:
                value = codec.encode(None)
                continue
            try:
                value = codec.encode(_loaded(migration.function)(before))
            except AtollError as error:
                raise self._blamed(migration, key, error.message) from error
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise self._blamed(migration, key, what) from error
        return value

    def _blamed(self, migration: Migration, key: bytes, what: str) -> UserCodeError:
        shown = ", ".join(map(repr, decode_key(key))) or "the only value"
        return UserCodeError(
            f"migration {migration.id!r} of PState {self._spec.name!r} failed at {shown}: {what}",
            hint="correct the function and deploy the module again, with the same migration id",
            pstate=self._spec.name,
            migration=migration.id,
            key=shown,
        )

    def _position(self, key: bytes) -> tuple[str, ...] | None:
        if self._sole is not None:
            return self._sole
        return self._spec.position_of(decode_key(key))


def rewrite(writer: VnodeWriter, convert: Converter) -> None:
    """Convert all entries of a vnode, as part of a writer's writes.

    Raises:
        UserCodeError: When a value cannot be converted; the key is in the context.
        StateError: When a stored value is none of the schema before.
    """
    keys: list[bytes] = []
    olds: list[bytes | None] = []
    news: list[bytes | None] = []
    for key, value in writer.scan():
        new = convert(key, value)
        if new != value:
            keys.append(key)
            olds.append(value)
            news.append(new)
    writer.put_many(keys, news, olds)
