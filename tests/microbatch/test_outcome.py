"""Errors as data: which of them are the environment's."""

from __future__ import annotations

import errno
import os

import pytest

from atoll.errors import StorageError
from atoll.microbatch.backoff import delay_ms, is_environmental
from atoll.microbatch.outcome import ActorFailure, failure_of, first_failure


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EMFILE])
def test_errors_of_the_disk_are_the_environments(number):
    """Wherever they were not wrapped, with the file's name."""
    failure = failure_of(OSError(number, os.strerror(number), "some/file"))
    assert is_environmental(failure)
    assert failure.context == {"file": "some/file"}
    assert is_environmental(failure_of(StorageError("full")))


@pytest.mark.parametrize("error", [FileNotFoundError(2, "no"), ValueError("no"), OSError("no")])
def test_other_errors_blame_somebody(error):
    """They count towards the limit of attempts."""
    assert not is_environmental(failure_of(error))


def test_the_delay_doubles_up_to_its_cap():
    """The environment's is never above five seconds, so work goes on soon after it mended."""
    delays = [delay_ms(count, 10_000, environmental=False) for count in (1, 2, 3, 99)]
    assert delays == [50, 100, 200, 10_000]
    assert delay_ms(10_000, 60_000, environmental=True) == 5_000
    assert delay_ms(99, 700, environmental=True) == 700


def _of_record(partition, offset, code="E-DATA"):
    context = {"depot": "d", "depot_partition": str(partition), "record_offset": offset}
    return ActorFailure(code, f"{partition}:{offset}", context=context)


def test_of_several_records_the_first_is_told():
    """Whichever task met which; a failure of another kind that came first stays the one."""
    late, early = _of_record(0, "17"), _of_record(0, "9 to 12")
    elsewhere = _of_record(1, "2")
    assert first_failure([late, None, elsewhere, early]) is early
    other = ActorFailure("E-STORAGE", "no room")
    assert first_failure([other, early]) is other
    assert first_failure([late, other]) is late
    assert first_failure([late, _of_record(0, "1", "E-STATE")]) is late
    assert first_failure([None]) is None


def test_rows_that_are_missing_are_told_last():
    """Why they are missing, another task says."""
    missing = ActorFailure("E-ACCOUNTS", "nothing came")
    assert first_failure([missing, _of_record(3, "1")]).code == "E-DATA"
    assert first_failure([missing]) is missing
