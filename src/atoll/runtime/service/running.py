"""One runtime as it runs in this process: what goes in, and what can be seen of it."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.depot.producers.table import TOPOLOGY_PREFIX, Producer
from atoll.errors import (
    BusyError,
    ConflictError,
    NotFoundError,
    ProducerError,
    UserCodeError,
)
from atoll.runtime.actors.interface import Event
from atoll.runtime.engine.compile import INTAKE, TOPOLOGY
from atoll.runtime.engine.intake import COPIES_MAX, copy_of, key_vnode, record
from atoll.runtime.engine.keyed import Places
from atoll.runtime.engine.memory import OFFER
from atoll.runtime.engine.program import RuntimeProgram
from atoll.runtime.service.gate import Gate
from atoll.runtime.service.registry import Registered

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from atoll.views.readable import ReadablePState


BACKLOG_MAX = 1_000_000
"""So many accepted events may wait; more are refused until some have been processed."""

_EPOCH_BITS = 40


class Sent(msgspec.Struct, frozen=True):
    """What a runtime accepted: durable, and processed exactly once.

    Args:
        accepted: How many events.
        first: The position of the first in the intake.
        end: The position after the last.
    """

    accepted: int
    first: int
    end: int


class Asked(msgspec.Struct, frozen=True):
    """A shunt on its way.

    Args:
        actor: Who takes it.
        name: What its answer is kept under.
        end: The position after it in the intake.
        copy: Which copy takes it, unless copies are changed before.
    """

    actor: str
    name: str
    end: int
    copy: int


class SeenRuntime:
    """A runtime as its commits show it, wherever it runs.

    Args:
        registered: What the registry says of it.
        program: What its copies run.
        states: Gives a PState of its module, as of the last commit.
    """

    def __init__(
        self,
        registered: Registered,
        program: RuntimeProgram,
        states: Callable[[str], ReadablePState],
    ) -> None:
        """Nothing is read."""
        self.registered = registered
        self.program = program
        self.pstate = states

    def counters(self) -> dict[int, dict[str, dict[str, int]]]:
        """By copy, actor and statistic how often something has happened, as of the last commit."""
        found: Mapping[int, Any] = self.pstate("statistics").get() or {}
        return {
            copy: {actor: dict(counts) for actor, counts in actors.items()}
            for copy, actors in found.items()
        }

    def kept(self, copy: int, actor: str) -> dict[int, dict[str, str]]:
        """What is stored of an actor in a copy: by instance and group."""
        found = self.pstate("states").get(copy, actor)
        return {instance: dict(groups) for instance, groups in (found or {}).items()}

    def places(self) -> Places:
        """What is stored of all: by copy, actor, instance and group."""
        found: Places = self.pstate("states").get() or {}
        return found


class RunningRuntime(SeenRuntime):
    """A runtime whose module is deployed here.

    Args:
        registered: What the registry says of it.
        program: What its copies run.
        app: Its module.
    """

    def __init__(self, registered: Registered, program: RuntimeProgram, app: App) -> None:
        """Nothing is sent."""
        super().__init__(registered, program, app.pstate)
        self.app = app
        self.left = False
        """Whether its module is about to be closed, to be deployed anew or to be gone."""
        self.followed = 0
        """The last change of which the copies know what it means for them."""
        self.gate = Gate(registered.name)
        """The entrance of events and shunts."""
        # No two records of a runtime share a turn: a later life's are all higher.
        self._turns = itertools.count(app.epoch.number << _EPOCH_BITS)

    # -- events -----------------------------------------------------------------------------------

    def send(self, actor: str, events: Sequence[Event], copy: int | None = None) -> Sent:
        """Take events for an actor; when this returns they are durable.

        Args:
            actor: Who takes them.
            events: JSON objects that were found right.
            copy: Which copy takes them; by key or round robin for None.

        Raises:
            NotFoundError: When there is no such actor or copy.
            ConflictError: When the runtime does not run, or the actor takes no events.
            BusyError: When too many accepted events wait.
        """
        with self.gate:
            self._check(actor, copy, len(events))
            return self._append([self._event("trigger", actor, each, copy) for each in events])

    def shunt(
        self, actor: str, event: Event, copy: int | None = None, timeout_seconds: float = 30.0
    ) -> dict[str, Any]:
        """Let an actor take an event and give its answer once the microbatch has committed.

        It emits nothing; what it asks for outside is done, and its state changes.

        Raises:
            NotFoundError: When there is no such actor or copy.
            ConflictError: When the runtime does not run, or the actor takes no events.
            WaitTimeoutError: When the microbatch takes longer; the event is processed all the same.
            UserCodeError: When the actor could not process it.
        """
        return self.answer_of(self.ask(actor, event, copy), timeout_seconds)

    def ask(self, actor: str, event: Event, copy: int | None = None) -> Asked:
        """Take an event whose answer is wanted; when this returns it is durable.

        Raises:
            NotFoundError: When there is no such actor or copy.
            ConflictError: When the runtime does not run, or the actor takes no events.
            BusyError: When too many accepted events wait.
        """
        name = f"{_now_ms():015d}-{uuid.uuid4().hex}"
        with self.gate:
            self._check(actor, copy, 1)
            made = self._event("shunt", actor, event, copy, name)
            end = self._append([made]).end
        return Asked(actor, name, end, copy_of(made, self.program.copies))

    def answer_of(self, asked: Asked, timeout_seconds: float = 30.0) -> dict[str, Any]:
        """What an actor gave for a shunt, once its microbatch has committed; see :meth:`shunt`."""
        actor = asked.actor
        committed = self.app.wait_committed(INTAKE, {0: asked.end}, timeout_seconds=timeout_seconds)
        answers = self.app.pstate("answers")
        # Another copy than that one has taken it when copies were changed meanwhile.
        copies = dict.fromkeys((asked.copy, *range(1, COPIES_MAX + 1)))
        found = (answers.get(copy, asked.name) for copy in copies)
        data = next((each for each in found if each is not None), None)
        if data is None:
            raise NotFoundError(
                "the answer of the shunt is no longer kept",
                hint="ask for it sooner: answers are kept for a minute",
                actor=actor,
            )
        answer: dict[str, Any] = msgspec.json.decode(data)
        if not answer["success"]:
            raise UserCodeError(
                f"actor {actor!r} could not process the event: {answer['reason']}",
                hint="correct the event; the runtime goes on",
                actor=actor,
                copy=answer["copy"],
                instance=answer["instance"],
            )
        return {**answer, "microbatch": committed[TOPOLOGY]}

    def answered(self, actor: str, events: Iterable[Event], number: int, copy: int) -> None:
        """Pass on what an effect of an actor gave, as if it had emitted it; once per number."""
        made = [
            record("answer", actor, each, turn=next(self._turns), at=_now_ms(), copy=copy)
            for each in events
        ]
        if made:
            self.append_once(f"answer/{actor}", number, made)

    def append_once(self, name: str, number: int, records: list[dict[str, Any]]) -> bool:
        """Append records that a number stands for; whether they were not there before.

        Whoever comes second, with the same records or others, appends nothing.
        """
        producer = Producer(
            f"{TOPOLOGY_PREFIX}{self.app.name}/{name}"[:160], sequence=number, gaps=True
        )
        try:
            return not self.app.depot(INTAKE).append(records, producer=producer).duplicate
        except ProducerError as error:
            if error.context.get("problem") != "conflict":
                raise
            return False

    def control(self, kind: str, actor: str, body: Any, copy: int | None = None) -> dict[str, Any]:
        """A record that is no event."""
        turn, at = next(self._turns), _now_ms()
        return record(kind, actor, body, turn=turn, at=at, copy=copy)

    def last_offers(self) -> list[dict[str, Any]]:
        """The last snapshot of each actor again, for copies that did not have it."""
        found = {name: self.kept(1, name).get(OFFER, {}).get("") for name in self.program.batch}
        return [self.control("offer", name, data) for name, data in found.items() if data]

    def wait_all(self, timeout_seconds: float = 60.0) -> None:
        """Wait until everything accepted so far is processed."""
        self.app.wait_committed(INTAKE, timeout_seconds=timeout_seconds)

    # Inside ---------------------------------------------------------------------------------------

    def _check(self, actor: str, copy: int | None, count: int) -> None:
        found = self.program.actors.get(actor)
        if found is None:
            raise NotFoundError(
                f"runtime {self.registered.name!r} has no actor {actor!r}",
                hint="it has " + ", ".join(self.program.actors),
            )
        if copy is not None and not 1 <= copy <= self.program.copies:
            raise NotFoundError(
                f"runtime {self.registered.name!r} has no copy {copy}",
                hint=f"its copies are 1 to {self.program.copies}",
            )
        if self.registered.status != "running":
            raise ConflictError(
                f"runtime {self.registered.name!r} is {self.registered.status}, so it takes no "
                "events",
                hint='start it: PATCH {"status": "start"}, or atoll runtime start',
            )
        if found.kind.entry:
            raise ConflictError(
                f"actor {actor!r} is a {found.kind.name}, which takes no events",
                hint="send events to an actor that it is linked to",
            )
        self._check_backlog(count)

    def _check_backlog(self, count: int) -> None:
        topology = self.app.topology(TOPOLOGY)
        waiting = sum(sum(each) for each in topology.status()["lag"].values())
        if waiting and waiting + count > BACKLOG_MAX:
            raise BusyError(
                f"{waiting} events that were accepted wait to be processed",
                hint="send again in a while; more copies process more at once",
                runtime=self.registered.name,
            )

    def _event(
        self, kind: str, actor: str, event: Event, copy: int | None, name: str = ""
    ) -> dict[str, Any]:
        by = self.program.definition.distribution.by
        vnode = None if by is None or copy is not None else key_vnode(event.get(by))
        turn, at = next(self._turns), _now_ms()
        return record(kind, actor, event, turn=turn, at=at, copy=copy, vnode=vnode, name=name)

    def _append(self, records: list[dict[str, Any]]) -> Sent:
        if not records:
            return Sent(0, 0, 0)
        appended = self.app.depot(INTAKE).append(records)
        first, end = appended.offsets[0]
        return Sent(appended.count, first, end)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
