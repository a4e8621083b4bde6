"""What Spark raises, as the status shows it."""

from __future__ import annotations

import pytest

from atoll.errors import UserCodeError
from atoll.spark.jobs.failures import StepFailureError, job_failure, telling, value_problem

DIVISION = """[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012
== SQL (line 1, position 1) ==
id div 0 AS x
^^^^^^^^
"""
LOST = """An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted: the worker exited unexpectedly
\tat org.apache.spark.api.python.BasePythonRunner
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.EOFException
"""


def test_a_failure_survives_the_way_through_text(tmp_path):
    """Code, hint, context and trace come out as they went in."""
    with pytest.raises(StepFailureError) as caught, telling(tmp_path / "known"):
        raise UserCodeError("it broke", hint="mend it", row="Row(k='é')", line="shop.py:3")
    report = f"Traceback\n  File x\nStepFailureError: {caught.value}\n\tat java\n"
    failure = job_failure(RuntimeError(report))
    assert (failure.code, failure.message, failure.hint) == ("E-USER-CODE", "it broke", "mend it")
    assert failure.context == {"row": "Row(k='é')", "line": "shop.py:3"}
    assert "UserCodeError" in failure.trace


def test_what_failed_is_not_run_again(tmp_path):
    """A task that Spark starts again fails as the first did, without running anything."""
    known = tmp_path / "attempt" / "failure"
    ran = []

    def fail(error):
        ran.append(1)
        raise error

    for _ in range(2):  # what is not Atoll's may be the machine's, and pass
        with pytest.raises(StepFailureError), telling(known):
            fail(EOFError())
    assert len(ran) == 2
    ran.clear()
    for _ in range(3):
        with pytest.raises(StepFailureError) as caught, telling(known):
            fail(UserCodeError("it broke", row="Row()"))
        assert StepFailureError.found_in(str(caught.value)).message == "it broke"
    assert len(ran) == 1
    with telling(tmp_path / "another"):
        ran.append(2)
    assert ran == [1, 2]


def test_an_expression_that_fails_on_a_value():
    """Spark's condition and the expression, without the drawing."""
    failure = job_failure(RuntimeError(DIVISION))
    assert failure.code == "E-SPARK"
    assert failure.message == (
        "the Spark job failed: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. "
        "(in id div 0 AS x)"
    )
    assert "mend the expression" in failure.hint


class _RaisedError(RuntimeError):
    """As Spark's exceptions on the driver."""

    def __init__(self, text, state):
        super().__init__(text)
        self.state = state

    def getSqlState(self):
        return self.state


@pytest.mark.parametrize(
    ("state", "permanent"),
    [
        *[(state, True) for state in ("22012", "22018", "23505", "P0001", "54000")],
        *[(state, False) for state in ("42703", "KD001", "XX000", "58030", None)],
    ],
)
def test_which_of_sparks_errors_come_again(state, permanent):
    """What is wrong with values, by the class of its SQLSTATE; nothing of files or of Spark."""
    failure = job_failure(_RaisedError(DIVISION, state))
    assert failure.permanent is permanent
    assert failure.code == ("E-DATA" if permanent else "E-SPARK")
    assert value_problem(_RaisedError(DIVISION, state)) == (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`." if permanent else None
    )


class _Cause:
    """As a Java exception through py4j: only Spark's have an SQLSTATE."""

    def __init__(self, cause=None, state=None):
        self.getCause = lambda: cause
        self.getMessage = lambda: DIVISION
        if state is not None:
            self.getSqlState = lambda: state


def test_an_error_inside_another():
    """A join sends one side to all in a thread of its own, whose error only says that it failed."""
    error = RuntimeError("An error occurred while calling o1.collectToPython")
    error.java_exception = _Cause(_Cause(state="22012"))
    failure = job_failure(error)
    assert (failure.code, failure.permanent) == ("E-DATA", True)
    assert "[DIVIDE_BY_ZERO]" in failure.message
    error.java_exception = _Cause(_Cause())
    assert not job_failure(error).permanent


def test_anything_else_keeps_its_last_line():
    """Before the JVM's stack; the whole text stays as the trace."""
    failure = job_failure(RuntimeError(LOST))
    assert failure.message.endswith("Job aborted: the worker exited unexpectedly")
    assert "EOFException" in failure.trace
    assert job_failure(RuntimeError("")).message == "the Spark job failed: RuntimeError"
