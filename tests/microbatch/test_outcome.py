"""Errors as data: which of them are the environment's."""

from __future__ import annotations

import errno
import os

import pytest

from atoll.errors import StorageError
from atoll.microbatch.backoff import delay_ms, is_environmental
from atoll.microbatch.outcome import failure_of


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
