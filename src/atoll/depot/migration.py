"""Records of an older schema become records of the present one while they are read.

A migration of a depot is the user's function from a record of the schema before to one of the
schema after. Segments are immutable, and each keeps the schema that it was written with; so
nothing is rewritten, offsets never change, and retention drops what is old in the end.

A depot's migrations have an order. Each remembers *until* which offsets the records had been
appended when it came, so a segment's first offsets say which of them its records still have to go
through. In between columns may have been added: a record gets those that its schema lacks, null,
before it goes through the next function.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.ddl import parse_ddl
from atoll.depot.evolution import extends, with_columns
from atoll.errors import AtollError, UserCodeError


class DepotMigration(msgspec.Struct, frozen=True):
    """One migration, as the deployment keeps it.

    Attributes:
        id: The name that the user gave it.
        before: The DDL of the records that it takes.
        after: The DDL of the records that it makes.
        function: From a record (a dict) to a record, pickled by value.
        until: By depot partition, the offset after the last record that it is for; None until the
            depot has been opened with it, which means all that there are.
    """

    id: str
    before: str
    after: str
    function: bytes
    until: tuple[int, ...] | None = None


class NotMigratedError(Exception):
    """A record on which a migration failed: which one, and why."""

    def __init__(self, migration: str, row: int, why: str) -> None:
        """``row`` counts from 0 in the batch."""
        super().__init__(why)
        self.migration = migration
        self.row = row
        self.why = why


def generation_of_segment(migrations: Sequence[DepotMigration], bases: Sequence[int]) -> int:
    """How many migrations had come before a segment with these first offsets was begun."""
    return sum(
        each.until is not None
        and all(base >= end for base, end in zip(bases, each.until, strict=True))
        for each in migrations
    )


def generation_of_rows(migrations: Sequence[DepotMigration], ddl: str, stored: str) -> int:
    """How many migrations had come when rows of a schema were made; all when it fits nowhere.

    For rows that have no offsets yet. Where one schema stood twice, it is the later time.
    """
    for generation in range(len(migrations), -1, -1):
        begun = generation == 0 or extends(stored, migrations[generation - 1].after)
        if begun and extends(schema_at(migrations, generation, ddl), stored):
            return generation
    return len(migrations)


def schema_at(migrations: Sequence[DepotMigration], generation: int, ddl: str) -> str:
    """The DDL that records of a generation had in the end; ``ddl`` is the present one."""
    return migrations[generation].before if generation < len(migrations) else ddl


def migrate(
    batch: pa.RecordBatch, migrations: Iterable[DepotMigration], schema: pa.Schema
) -> pa.RecordBatch:
    """Records through the migrations that they still have to go through, in order.

    Args:
        batch: Records of a schema that the first migration's ``before`` extends.
        migrations: Those that came since.
        schema: The present one.

    Raises:
        NotMigratedError: When a function raises, or what it returns does not fit.
    """
    for each in migrations:
        batch = _through(each, with_columns(batch, _codec(each.before).schema))
    return with_columns(batch, schema)


def blamed(error: NotMigratedError, depot: str, where: str, **context: Any) -> UserCodeError:
    """The error for users: which migration of which depot failed at which record."""
    return UserCodeError(
        f"migration {error.migration!r} of depot {depot!r} failed at {where}: {error.why}",
        hint="correct the function and deploy the module again, with the same migration id",
        depot=depot,
        migration=error.migration,
        **context,
    )


def _through(migration: DepotMigration, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of the schema before as one of the schema after."""
    function, made = _loaded(migration.function), []
    for index, row in enumerate(_codec(migration.before).to_rows(batch)):
        try:
            new = function(row)
        except AtollError as error:
            raise NotMigratedError(migration.id, index, error.message) from error
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise NotMigratedError(migration.id, index, why) from error
        if not isinstance(new, Mapping):
            raise NotMigratedError(migration.id, index, _no_record(new))
        made.append(new)
    checked = _codec(migration.after).from_rows(made)
    if checked.refused_count:
        first = min(checked.refusals, key=lambda each: each.line)
        raise NotMigratedError(migration.id, first.line - 1, first.reason)
    return checked.batch


def _no_record(new: Any) -> str:
    if new is None:
        return "it returned None, but a record stays in its depot: return one that steps can filter"
    return f"it returned a {type(new).__name__}, and not a dict of the new record's fields"


@functools.lru_cache(maxsize=256)
def _codec(ddl: str) -> RecordCodec:
    return RecordCodec(parse_ddl(ddl))


@functools.lru_cache(maxsize=256)
def _loaded(function: bytes) -> Callable[[dict[str, Any]], Any]:
    # It was put there by a deployment, which runs the user's code anyway; never by a client.
    return pickle.loads(function)  # type: ignore[no-any-return]  # noqa: S301
