"""Trials over several processes: a mapping is tried in all of them before it stands in any.

Who is asked for a change that concerns modules of other processes makes the next trial object:
the parts that these modules are to have. The process that runs such a module tries its topologies
there, answers with an object of the trial's number, and waits. When all have answered well, the
asker makes the next revision, which says that the trial is decided; that one object is the
decision. Else it makes a revision that says the same and changes nothing, and all go back.

Whoever dies meanwhile holds nobody up for long: a process that has answered and hears nothing
makes the revision that gives the trial up itself; whoever comes first is right. A module is
never run by two: each placement is its own process's, and its epoch fences the others.
Trials are numbered without gaps, and none begins before the one before is decided.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.errors import AtollError, RescheduleError
from atoll.placement.registry import Part, Registry, full_name
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError

LOOK_SECONDS = 0.1
"""Between two looks for an answer, or for the decision."""

GRACE_SECONDS = 10.0
"""How much longer than its timeout a trial may take to be decided."""

_KEPT = 20


class Trial(msgspec.Struct, frozen=True):
    """What is to be tried.

    Attributes:
        number: From 1.
        before: The parts that the modules have, by module.
        after: The parts that they are to have.
        revision: Of the cluster afterwards.
        timeout_seconds: How long each may take.
        asker: Who asks, for a person.
    """

    number: int
    before: dict[str, Part]
    after: dict[str, Part]
    revision: int
    timeout_seconds: float
    asker: str


class Answer(msgspec.Struct, frozen=True):
    """What a module's process says: nothing when its topologies have committed there.

    Attributes:
        topology: Which one stays where it was; None when all have moved, "" when none was tried.
        message: Why.
        hint: What to do.
    """

    topology: str | None = None
    message: str = ""
    hint: str | None = None


class Trials:
    """The trials of a root.

    Args:
        revisions: Of the root's cluster.
        now_ms: The wall clock, for people.
    """

    def __init__(self, revisions: Revisions, now_ms: Callable[[], int]) -> None:
        """Nothing is read yet."""
        self._objects = NumberedObjects(revisions.store, "meta/trials")
        self._revisions = revisions
        self._now_ms = now_ms
        self._last: int | None = None

    def open(self) -> Trial | None:
        """The trial that waits to be decided, if any."""
        self._last = number = self._objects.latest(self._last)
        if number is None or number <= self._revisions.latest().trial:
            return None
        return msgspec.msgpack.decode(self._objects.read(number), type=Trial)

    def begin(self, before: Registry, trial: Trial) -> bool:
        """Ask for a trial; False when another one came first."""
        if trial.number != before.trial + 1 or self.open() is not None:
            return False
        try:
            self._objects.create(trial.number, msgspec.msgpack.encode(trial))
        except ObjectExistsError:
            return False
        self._objects.delete_below(trial.number - _KEPT)
        return True

    def answer(self, trial: Trial, module: str, answer: Answer) -> None:
        """Say how it went."""
        answers = self._answers(module)
        answers.create(trial.number, msgspec.msgpack.encode(answer))
        answers.delete_below(trial.number - _KEPT)

    def answers(self, trial: Trial, until: float) -> dict[str, AtollError]:
        """Wait for what all modules say; the topologies that stay where they were, and why.

        Args:
            trial: The trial.
            until: When to stop waiting, on the clock that never goes back.
        """
        waiting, refused = set(trial.after), dict[str, AtollError]()
        while waiting and not refused:
            for module in sorted(waiting):
                answers = self._answers(module)
                if answers.exists(trial.number):
                    data = answers.read(trial.number)
                    answer = msgspec.msgpack.decode(data, type=Answer)
                    waiting.remove(module)
                    if answer.topology is not None:
                        name = full_name(module, answer.topology) if answer.topology else module
                        refused[name] = RescheduleError(answer.message, hint=answer.hint)
            if waiting and not refused:
                if time.monotonic() > until:
                    refused |= {each: _silent(each) for each in sorted(waiting)}
                time.sleep(LOOK_SECONDS)
        return refused

    def decided(self, trial: Trial) -> bool:
        """Whether it stands, or was given up."""
        return self._revisions.latest().trial >= trial.number

    def await_decision(self, trial: Trial, seconds: float) -> None:
        """Return when it is decided; who waited so long gives it up."""
        until = time.monotonic() + seconds
        while not self.decided(trial):
            if time.monotonic() > until:
                self.give_up(trial, "nobody decided it")
                return
            time.sleep(LOOK_SECONDS)

    def give_up(self, trial: Trial, why: str) -> None:
        """Let it be decided that nothing changes, unless it is decided already."""

        def edit(registry: Registry) -> Registry:
            if registry.trial >= trial.number:
                return registry
            return msgspec.structs.replace(registry, trial=trial.number)

        said = f"trial {trial.number} of {trial.asker} given up: {why}"
        self._revisions.change(edit, lambda after: Revision(after, "", 0, self._now_ms(), said))

    def _answers(self, module: str) -> NumberedObjects:
        return NumberedObjects(self._revisions.store, f"meta/trial-answers/{module}")


def _silent(module: str) -> AtollError:
    return RescheduleError(
        f"the process that runs module {module!r} does not answer",
        hint=f"end it and start {module} again, or leave its fragments out",
    )
