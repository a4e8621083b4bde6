"""What the tasks of an attempt report: one manifest per actor and job, and their sum.

Only what the manifests name counts. A task that ran twice wrote two sets of files under two
tokens; the manifest that Spark returned says which of them are part of the attempt.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec
import pyarrow as pa

from atoll.errors import AccountsError, AtollError, StorageError, TooLargeError
from atoll.microbatch.accounts.entries import ActorAccounts, StepRows
from atoll.microbatch.commits.objects import AppendedRows, CheckpointFile, LogFile
from atoll.pstate.store.history import FileRef

_ENVIRONMENT = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.ESTALE,
    }
)
"""What the operating system says when its storage or its handles have run out or failed."""

_OVERFLOWS = ("offset overflow while concatenating", "overflowed binary array capacity")
"""What Arrow says when the 32 bits of an array's offsets do not reach."""


class ActorFailure(msgspec.Struct, frozen=True):
    """Why a task could not do its part, as its error said it."""

    code: str
    message: str
    hint: str | None = None
    context: dict[str, str] = {}
    """Where it was wrong."""
    trace: str = ""
    """For the log, never for a person's screen."""
    permanent: bool = False
    """Whether the same records bring it again, however often they are tried."""


class StagedFile(msgspec.Struct, frozen=True):
    """Rows that an emitting step left for the jobs after it."""

    operator: int
    file: FileRef
    sequence: int | None = None
    """The number of the task that had the rows, where the rows keep the order of the tasks."""


class Manifest(msgspec.Struct, frozen=True):
    """What one actor did in one job."""

    token: str
    unit: int
    logs: dict[str, LogFile] = {}
    checkpoints: dict[str, CheckpointFile] = {}
    staged: list[StagedFile] = []
    appends: list[AppendedRows] = []
    opened: dict[str, int] = {}
    """How many vnodes were found current, behind or absent."""
    logs_applied: int = 0
    """How many incremental logs those that were behind or absent needed."""
    worker: str = ""
    """The host and folder whose vnode stores it opened."""
    vnode_bytes: dict[str, dict[int, int]] = {}
    """For each PState how much room the opened vnode stores take, where the driver cannot look."""
    migrated: dict[str, list[int]] = {}
    """For each PState the vnodes whose entries are of its present generation since this job."""
    rows: int = 0
    timings_ms: dict[str, float] = {}
    failure: ActorFailure | None = None
    watermarks: dict[str, dict[str, int]] = {}
    """How far each watermark would be by the rows of this attempt alone, by depot partition
    (``bids/3``; ``""`` for rows of which it is not known)."""
    dropped: dict[str, int] = {}
    """How many rows were dropped because they lie in no open window, by step."""
    agenda: dict[str, dict[int, int]] = {}
    """For each PState of a timed step, for each vnode that it looked at, when it is due next."""
    accounts: ActorAccounts | None = None
    """What it counted; None where nothing was run."""


class Way(StrEnum):
    """What ran a job's tasks."""

    INLINE = "inline"
    """The calling process."""
    SPARK = "spark"
    """An ordinary Spark job."""
    STANDING = "standing"
    """Standing tasks."""
    MIXED = "mixed"
    """Spark its column steps, standing tasks its actors."""


class JobOutcome(msgspec.Struct, frozen=True):
    """The manifests of one Spark job, one per actor."""

    index: int
    manifests: list[Manifest]
    way: Way | None = None
    """None for a job that had nothing to do."""
    ahead: bool = False
    """Whether rows of it were read before the attempt."""

    @property
    def failure(self) -> ActorFailure | None:
        """The failure among the actors that is told, or None."""
        return first_failure(m.failure for m in self.manifests)

    @property
    def tokens(self) -> list[str]:
        """The winning task runs."""
        return [manifest.token for manifest in self.manifests]

    def logs(self, pstate: str) -> list[LogFile]:
        """The incremental logs of a PState."""
        return [m.logs[pstate] for m in self.manifests if pstate in m.logs]

    def staged(self, operator: int) -> list[FileRef]:
        """The rows that a step emitted, in the order of the tasks or else of the actors."""
        found = [s for m in self.manifests for s in m.staged if s.operator == operator]
        return [each.file for each in sorted(found, key=lambda each: each.sequence or 0)]


class Outcome(msgspec.Struct, frozen=True):
    """All jobs of a successful attempt, in order."""

    jobs: list[JobOutcome]
    rows: list[StepRows] = []
    """What became of the rows, step by step, once it is known that they add up."""

    def pstates(self) -> list[str]:
        """The PStates that the attempt changed or checkpointed."""
        names = {n for j in self.jobs for m in j.manifests for n in (*m.logs, *m.checkpoints)}
        return sorted(names)

    def opened(self) -> dict[str, int]:
        """How many vnodes were found current, behind or absent, over all actors and jobs."""
        total: dict[str, int] = {}
        for job in self.jobs:
            for manifest in job.manifests:
                for kind, count in manifest.opened.items():
                    total[kind] = total.get(kind, 0) + count
        return total

    def logs_applied(self) -> int:
        """How many incremental logs were applied to vnodes that were behind or absent."""
        return sum(manifest.logs_applied for job in self.jobs for manifest in job.manifests)

    def workers(self) -> list[tuple[int, str]]:
        """For each actor that ran its unit and where it ran."""
        return [(manifest.unit, manifest.worker) for job in self.jobs for manifest in job.manifests]

    def vnode_bytes(self) -> dict[tuple[str, int], int]:
        """How much room vnode stores take, by PState and vnode, as far as actors told."""
        return {
            (pstate, vnode): size
            for job in self.jobs
            for manifest in job.manifests
            for pstate, sizes in manifest.vnode_bytes.items()
            for vnode, size in sizes.items()
        }

    def watermarks(self) -> dict[str, dict[str, int]]:
        """How far each watermark would be by the rows of this attempt, by depot partition."""
        found: dict[str, dict[str, int]] = {}
        for manifest in self._manifests():
            for name, parts in manifest.watermarks.items():
                known = found.setdefault(name, {})
                for part, millis in parts.items():
                    known[part] = max(millis, known.get(part, millis))
        return found

    def dropped(self) -> dict[str, int]:
        """How many rows were dropped because they lie in no open window, by step."""
        found: dict[str, int] = {}
        for manifest in self._manifests():
            for name, count in manifest.dropped.items():
                found[name] = found.get(name, 0) + count
        return found

    def agenda(self, pstate: str) -> dict[int, int]:
        """When something is due next, for each vnode that a timed step looked at."""
        return {
            vnode: millis
            for manifest in self._manifests()
            for vnode, millis in manifest.agenda.get(pstate, {}).items()
        }

    def _manifests(self) -> Iterator[Manifest]:
        return (manifest for job in self.jobs for manifest in job.manifests)

    def step_ms(self) -> dict[str, float]:
        """How long tasks were at each step, all of them added up, by the step's name."""
        found: dict[str, float] = {}
        for manifest in self._manifests():
            if manifest.accounts is not None:
                for step, millis in manifest.accounts.step_ms.items():
                    found[step] = found.get(step, 0.0) + millis
        return found

    def by_unit(self) -> tuple[dict[int, int], dict[int, float]]:
        """The rows that came to each unit's actors, and how many milliseconds these took."""
        rows: dict[int, int] = {}
        millis: dict[int, float] = {}
        for each in self._manifests():
            rows[each.unit] = rows.get(each.unit, 0) + each.rows
            millis[each.unit] = millis.get(each.unit, 0.0) + sum(each.timings_ms.values())
        return rows, millis

    def slowest_ms(self) -> dict[str, float]:
        """For each part of the actors' work the longest that one of them took, jobs added up."""
        total: dict[str, float] = {}
        for job in self.jobs:
            for name in {name for m in job.manifests for name in m.timings_ms}:
                slowest = max(m.timings_ms.get(name, 0.0) for m in job.manifests)
                total[name] = total.get(name, 0.0) + slowest
        return total


def first_failure(told: Iterable[ActorFailure | None]) -> ActorFailure | None:
    """Of what several tasks of a job say the failure to be told; None when all went well.

    An actor for which nothing was packed says that rows are missing; why, another one says. Of
    several records on which the same fails it is the first one, whoever met which of them first.
    """
    found = [each for each in told if each is not None]
    first = min(found, key=lambda each: each.code == AccountsError.code, default=None)
    if first is None or _place_of(first) is None:
        return first
    alike = [
        (place, each) for each in found if (place := _place_of(each)) and each.code == first.code
    ]
    return min(alike, key=lambda pair: pair[0])[1]


def _place_of(failure: ActorFailure) -> tuple[str, int, int] | None:
    """Depot, partition and offset of the record, or of the first of some; None when unknown."""
    context = failure.context
    offset, _, _ = context.get("record_offset", "").partition(" ")
    partition = context.get("depot_partition", "")
    if not (offset.isdecimal() and partition.isdecimal()):
        return None
    return context.get("depot", ""), int(partition), int(offset)


def failure_of(error: BaseException) -> ActorFailure:
    """An error as data."""
    if isinstance(error, AtollError):
        context = {name: str(value) for name, value in error.context.items()}
        return ActorFailure(
            error.code, error.message, error.hint, context, permanent=error.permanent
        )
    if isinstance(error, OSError) and error.errno in _ENVIRONMENT:
        file = {} if error.filename is None else {"file": str(error.filename)}
        hint = "check free space, permissions and the disk's health"
        return ActorFailure(StorageError.code, f"the disk refused: {error.strerror}", hint, file)
    if _is_too_large(error):
        return too_large(f"{type(error).__name__}: {error}" if str(error) else "out of memory")
    return ActorFailure("E-INTERNAL", f"{type(error).__name__}: {error}")


def too_large(said: str) -> ActorFailure:
    """What an attempt holds at once is more than something takes."""
    return ActorFailure(TooLargeError.code, f"too much at once: {said}", TooLargeError.usual_hint)


def _is_too_large(error: BaseException) -> bool:
    """Whether memory, an array or a file had no room: less at once may fit."""
    if isinstance(error, MemoryError | pa.ArrowCapacityError):
        return True
    if isinstance(error, OSError):
        return error.errno in (errno.ENOMEM, errno.EFBIG)
    if isinstance(error, pa.ArrowInvalid):
        return any(each in str(error) for each in _OVERFLOWS)
    # Arrow gives several arrays for one where one cannot hold all, and then no kernel takes them.
    return isinstance(error, TypeError | AttributeError) and "ChunkedArray" in str(error)
