"""How long to wait after a failure, and which failures blame nobody. Pure."""

from __future__ import annotations

from atoll.errors import BacklogError, StorageError
from atoll.microbatch.outcome import ActorFailure

_DELAY_MS_MIN = 50
_ENVIRONMENT_DELAY_MS_MAX = 5_000
"""Work goes on soon after the disk has room again, whatever the option says."""

_DOUBLINGS_MAX = 20


def is_environmental(failure: ActorFailure) -> bool:
    """Whether waiting helps and nobody is to blame: storage failed, or rows wait for others."""
    return failure.code in (StorageError.code, BacklogError.code)


def delay_ms(failures: int, delay_ms_max: int, *, environmental: bool) -> int:
    """The wait after so many failures in a row: it doubles with each, up to the option."""
    cap = min(delay_ms_max, _ENVIRONMENT_DELAY_MS_MAX) if environmental else delay_ms_max
    return min(_DELAY_MS_MIN << min(failures - 1, _DOUBLINGS_MAX), cap)
