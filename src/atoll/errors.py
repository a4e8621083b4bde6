"""Every error that Atoll raises on purpose, one type per kind, each with a stable code.

An error says what was wrong (the message), where (the context) and what to do next (the hint).
The same object renders for a person on the command line, as problem details over HTTP, and as
fields of a log line, so no layer has to invent wording of its own. The codes are documented in
``docs/reference/errors.md``; a test holds the two in step.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AccountsError",
    "AtollError",
    "BacklogError",
    "BudgetError",
    "BusyError",
    "ConflictError",
    "DamageError",
    "DataError",
    "DeclarationError",
    "DefinitionError",
    "DeployError",
    "DepotError",
    "FencedError",
    "ForbiddenError",
    "GivenError",
    "LogError",
    "NotFoundError",
    "OvertakenError",
    "PathError",
    "ProducerError",
    "QueryError",
    "QueryTimeoutError",
    "ReceiptError",
    "RecordsRefusedError",
    "RescheduleError",
    "SinkError",
    "SparkLostError",
    "StateError",
    "StoppedError",
    "StorageError",
    "ThrottledError",
    "TooLargeError",
    "TopologyFailedError",
    "UnauthenticatedError",
    "UsageError",
    "UserCodeError",
    "WaitTimeoutError",
]


class AtollError(Exception):
    """The base of every error that Atoll raises on purpose.

    Args:
        message: What was wrong: lower case, one line, no trailing full stop.
        hint: What to do next, as an action.
        context: Where it was wrong: names and values (``depot="numbers"``, ``file="..."``).
    """

    code: ClassVar[str] = "E-ATOLL"

    permanent: bool = False
    """Whether the same records bring it again, however often a microbatch is tried.

    Declared by the kind; an error that passed through a function of the user's has none, for such
    a function may have asked somebody else.
    """

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        """Message, then where, then what to do, on one line each."""
        where = ", ".join(f"{key}={value!r}" for key, value in self.context.items())
        lines = [f"{self.message} [{self.code}]"]
        if where:
            lines.append(f"  where: {where}")
        if self.hint:
            lines.append(f"  to do: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with hint and context: errors travel from Spark's Python workers."""
        return (_rebuild, (type(self), self.message, self.hint, self.context))


def _rebuild(
    kind: type[AtollError], message: str, hint: str | None, context: dict[str, Any]
) -> AtollError:
    return kind(message, hint=hint, **context)


class AccountsError(AtollError):
    """The rows of an attempt do not add up: some were lost, doubled or sent to the wrong actor.

    The attempt is not committed. ``context`` names job, step and unit, and what was counted.
    """

    code = "E-ACCOUNTS"


class BacklogError(AtollError):
    """Rows for a depot of another module wait, and no more are made until some are taken.

    ``context["depot"]`` is the depot, ``context["records"]`` how many rows wait.
    """

    code = "E-BACKLOG"


class BudgetError(AtollError):
    """A read that somebody asked a service for costs more than one may."""

    code = "E-BUDGET"


class BusyError(AtollError):
    """The service holds as many of something open as it may."""

    code = "E-BUSY"


class ConflictError(AtollError):
    """What is asked does not fit what is there now: a runtime that does not run, say."""

    code = "E-CONFLICT"


class DeclarationError(AtollError):
    """A module's declaration is wrong: found while declaring or while deploying it."""

    code = "E-DECLARATION"


class DefinitionError(AtollError):
    """The definition of a runtime is wrong; ``context["problems"]`` lists everything that is.

    Each problem is ``{"kind": ..., "path": ..., "what": ..., "hint": ...}``; the path is a JSON
    pointer into the definition.
    """

    code = "E-DEFINITION"


class DeployError(AtollError):
    """A module cannot be deployed over what the root already holds."""

    code = "E-DEPLOY"


class DepotError(AtollError):
    """A depot refused an operation: a closed depot, an offset that is gone, a bad argument."""

    code = "E-DEPOT"


class RecordsRefusedError(DepotError):
    """Records of an append do not fit the depot's schema.

    ``context["refusals"]`` lists the first of them as ``{"line": n, "reason": text}`` (lines
    count from 1 within the call), ``context["refused"]`` counts all, and
    ``context["appended"]`` says how many good records of the same call were kept.
    """

    code = "E-RECORDS-REFUSED"
    permanent = True


class ProducerError(DepotError):
    """A producer's append fits neither as its next one nor as one sent again.

    ``context["problem"]`` says why: ``gap``, ``conflict`` or ``stale epoch``;
    ``context["last_sequence"]`` is the last number that the depot holds of that producer.
    """

    code = "E-PRODUCER"


class OvertakenError(DepotError):
    """Retention deleted records before a reader, or a topology, came to them.

    ``context["offset"]`` is the next record that was to be read in ``context["partition"]``,
    ``context["oldest"]`` the first that is still there.
    """

    code = "E-OVERTAKEN"


class DamageError(AtollError):
    """A stored file is damaged, truncated or missing; ``context["file"]`` names it."""

    code = "E-DAMAGE"


class FencedError(AtollError):
    """A later life of the coordinator owns this module; ``context`` says who."""

    code = "E-FENCED"


class FillingError(AtollError):
    """A PState is being filled from the past, and cannot be read before it has caught up."""

    code = "E-FILLING"


class LogError(AtollError):
    """A log that others keep, such as a topic of Kafka, cannot be read, or is another one.

    ``context["topic"]`` is the topic. While a topology runs it waits, and looks again.
    """

    code = "E-LOG"


class NotFoundError(AtollError):
    """No module, depot, PState, topology or object of that name."""

    code = "E-NOT-FOUND"


class PathError(AtollError):
    """A path does not fit the PState's schema, or hit another number of values than asked."""

    code = "E-PATH"


class QueryError(AtollError):
    """A query came to an answer that it cannot give: several rows where it returns one."""

    code = "E-QUERY"


class RescheduleError(AtollError):
    """A change of where fragments run, or of the workers, that cannot be; nothing was changed.

    ``context["problem"]`` is the name of the check that refused it, the first of these that
    found something: ``unavailable``, ``stale revision``, ``no workers``, ``cordoned worker``,
    ``conflicting changes``, then for each fragment ``unknown fragment``,
    ``fragment not running``, ``follows another``, ``unit without actor``, ``unknown unit``,
    ``unit occupied``, ``nothing left``, ``singleton``, ``more units than vnodes``; then
    ``not taken`` when the first microbatch on the new mapping failed; and on the removal of a
    worker ``worker occupied``.
    """

    code = "E-RESCHEDULE"


class SinkError(AtollError):
    """A sink refuses rows, cannot be reached, or holds something else than it must.

    ``context["sink"]`` is the sink, where it has been given a name.
    """

    code = "E-SINK"


class SparkLostError(AtollError):
    """The JVM of Spark has died, and is not started anew: the hint says what can be done."""

    code = "E-SPARK-LOST"


class StateError(AtollError):
    """A value or key does not fit a PState's schema, or a store was used out of turn."""

    code = "E-STATE"


class DataError(StateError):
    """A record cannot be processed: a null where none may be, a total that does not fit.

    ``context`` says which: ``depot``, ``depot_partition`` and ``record_offset``, the ``operator``
    and where it was ``declared``, and the ``row`` that reached it.
    """

    code = "E-DATA"
    permanent = True


class StoppedError(AtollError):
    """A module that should run does not: the message says why."""

    code = "E-STOPPED"


class StorageError(AtollError):
    """The storage below refused an operation (disk full, I/O error, no permission)."""

    code = "E-STORAGE"


class ThrottledError(AtollError):
    """Too many failed tries to say who calls: for a while no more are looked at.

    ``context["retry_after_seconds"]`` says for how long.
    """

    code = "E-THROTTLED"


class TooLargeError(AtollError):
    """What an attempt holds at once is more than memory, an array, a file or a message takes.

    The plan of its microbatch is cut smaller; a single record of the size stops the topology.
    """

    code = "E-TOO-LARGE"
    usual_hint: ClassVar[str] = (
        "the microbatch is cut smaller by itself; for smaller ones from the beginning lower "
        "depot.microbatch.max.bytes; when a single record is too large, give the workers more "
        "memory"
    )


class TopologyFailedError(AtollError):
    """A topology stopped after its microbatch kept failing; ``resume`` goes on."""

    code = "E-TOPOLOGY-FAILED"


class UserCodeError(AtollError):
    """A function of the user's raised while a microbatch ran."""

    code = "E-USER-CODE"


class ForbiddenError(AtollError):
    """Who calls is known, and may not do that."""

    code = "E-FORBIDDEN"


class GivenError(UserCodeError):
    """A function of the user's gave its step what it never takes: a row returned, not yielded.

    It is the way in which the function is written, so it is not tried again.
    """

    code = "E-GIVEN"
    permanent = True


class UnauthenticatedError(AtollError):
    """Who calls is not known: no credential came, or one that is worth nothing."""

    code = "E-UNAUTHENTICATED"


class UsageError(AtollError):
    """A call or a command with arguments that cannot be."""

    code = "E-USAGE"


class ReceiptError(UsageError):
    """A receipt or token that cannot be waited for: a broken one, or one of another depot."""

    code = "E-RECEIPT"


class WaitTimeoutError(AtollError):
    """What was waited for did not happen within the time given."""

    code = "E-WAIT-TIMEOUT"


class QueryTimeoutError(WaitTimeoutError):
    """A query did not come to its answer within the time given."""

    code = "E-QUERY-TIMEOUT"


def kind_of_value(value: object) -> str:
    """A value's type as messages name it: ``a str``, ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
