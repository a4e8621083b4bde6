"""What the tests of runtime actor types share."""

from __future__ import annotations

import pytest

from atoll.runtime.actors.interface import Given
from atoll.runtime.actors.registry import actor_types
from atoll.runtime.definition.reading import read


class Trial:
    """One actor, triggered by hand; its params are read as a definition's are."""

    def __init__(self, name, params):
        self.kind = actor_types()[name]
        self.params, self.problems = read(params, self.kind.params, "invalid-actor")
        if self.params is not None:
            self.problems = list(self.kind.check(self.params))
            self.state = self.kind.initial(self.params)

    def send(self, event, at_ms=0, **collected):
        """What it emits for an event; None where that is a failure."""
        given = Given("trial", at_ms=at_ms, collected=collected)
        result = self.kind.trigger(self.params, self.state, event, given)
        self.state = result.state
        self.result = result
        return None if result.failure is not None else list(result.emitted)

    def start(self, at_ms=0):
        """The runtime starts."""
        self.state = self.kind.started(self.params, self.state, Given("trial", at_ms=at_ms))

    def tick(self, at_ms):
        """What timers emit until a time, as often as they are due."""
        emitted = []
        while (due := self.kind.due(self.params, self.state)) is not None and due <= at_ms:
            result = self.kind.tick(self.params, self.state, Given("trial", at_ms=due))
            self.state = result.state
            emitted += result.emitted
        return emitted

    def read(self):
        """What it shows."""
        return self.kind.read(self.params, self.state)


@pytest.fixture
def actor():
    """Makes an actor of right params."""

    def make(name, **params):
        trial = Trial(name, params)
        assert not trial.problems
        return trial

    return make


@pytest.fixture
def misfits():
    """The paths of what is wrong with params; each problem has a hint."""

    def find(name, **params):
        problems = Trial(name, params).problems
        assert all(each.hint and each.kind == "invalid-actor" for each in problems)
        return {each.path for each in problems}

    return find
