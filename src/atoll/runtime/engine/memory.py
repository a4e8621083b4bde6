"""What a copy keeps between two microbatches, loaded as it is met and written back at the end.

It lies in three PStates, each a map by copy:

- ``states``: actor, instance, group, then what is kept as JSON. Group ``""`` is the instance
  itself, ``"=v"`` the group of value v. Three numbers below zero are no instances: see
  :data:`OFFER`, :data:`FAILURE` and :data:`LIFE`.
- ``statistics``: actor, statistic, count.
- ``answers``: what shunts gave, by the shunt's id, which begins with the time that it came in.

An offered snapshot is one entry per copy and actor, and each instance compares its number with that
of the last snapshot that it took. So an offer reaches all instances at once, those too that have
no state yet, and an old or repeated one none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import msgspec

from atoll.runtime.actors.interface import Event, State

OFFER, FAILURE, LIFE = -1, -2, -3
"""In place of an instance: the last snapshot offered, the last failure, and (of actor ``""``)
whether the runtime was started."""

ANSWER_MS = 60_000
"""So long the answer to a shunt is kept at least."""

UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What the encoder raises of a value that JSON cannot say."""

_encode = msgspec.json.encode
_NOTHING: dict[str, Any] = {"emitted": [], "effects": [], "state": None}


class Kept(msgspec.Struct, omit_defaults=True):
    """What one instance, or one group of it, keeps.

    Attributes:
        state: The actor's own.
        snapshot: The number of the snapshot that it took last.
        seen: How many of its events the event log has.
        held: With ``collect-local`` the events since, and when each came.
        due: With ``collect-local`` by time, when they are counted next; epoch milliseconds.
    """

    state: State = None
    snapshot: int = 0
    seen: int = 0
    held: list[tuple[int, Event]] = []
    due: int | None = None


class Offer(msgspec.Struct):
    """A snapshot: the state of all instances of an actor, as of a range of the event log."""

    number: int
    state: State
    by: str = ""
    events: int = 0


class Failure(msgspec.Struct):
    """The last event that an actor could not process."""

    reason: str
    at: int


class Life(msgspec.Struct):
    """Whether a runtime was started, by which change of the registry, and when."""

    running: bool = False
    revision: int = 0
    since: int = 0


_kept = msgspec.json.Decoder(Kept)
_offer = msgspec.json.Decoder(Offer)
_life = msgspec.json.Decoder(Life)


def group_key(value: str | None) -> str:
    """The last key in ``states`` of a group; of the instance itself for None."""
    return "" if value is None else f"={value}"


def group_value(key: str) -> str | None:
    """The group of a last key in ``states``."""
    return key[1:] if key else None


def current(kept: Kept, offer: Offer | None, state_of: Callable[[State], State]) -> Kept:
    """What is kept, changed in place once the last offer counts.

    Args:
        kept: What is stored.
        offer: The last offer that the copy knows.
        state_of: Gives from the offer's state that of this instance or group.
    """
    if offer is not None and offer.number > kept.snapshot:
        kept.state, kept.snapshot = state_of(offer.state), offer.number
    return kept


class Memory:
    """What one copy keeps, during one call.

    Args:
        states: Of the copy: by actor, instance and group, JSON.
        statistics: Of the copy: by actor and statistic.
        answers: Of the copy: by id.
    """

    def __init__(
        self,
        states: MutableMapping[str, Any],
        statistics: MutableMapping[str, Any],
        answers: MutableMapping[str, str],
    ) -> None:
        """Nothing is loaded."""
        self._states = states
        self._statistics = statistics
        self._answers = answers
        self._kept: dict[tuple[str, int, str], Kept | None] = {}
        self._changed: dict[tuple[str, int, str], Kept] = {}
        self._offers: dict[str, Offer | None] = {}
        self._counted: dict[tuple[str, str], int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._failures: dict[str, Failure] = {}
        self._life: Life | None = None

    # -- instances --------------------------------------------------------------------------------

    def kept(self, actor: str, instance: int, key: str) -> Kept | None:
        """What is stored there; None for nothing."""
        place = (actor, instance, key)
        if place not in self._kept:
            data = self._states[actor][instance].get(key)
            self._kept[place] = None if data is None else _kept.decode(data)
        return self._kept[place]

    def keep(self, actor: str, instance: int, key: str, kept: Kept) -> None:
        """Keep it there from now on."""
        self._kept[actor, instance, key] = self._changed[actor, instance, key] = kept

    def forget(self, actor: str, instance: int, key: str) -> None:
        """Keep nothing there any more."""
        self._states[actor][instance].pop(key, None)
        self._changed.pop((actor, instance, key), None)
        self._kept[actor, instance, key] = None

    def keys(self, actor: str) -> Iterator[tuple[int, str]]:
        """The instances and groups of an actor that keep anything, in order."""
        found = {
            (instance, key)
            for instance, groups in self._states[actor].items()
            if instance >= 0
            for key in groups
        }
        found |= {(instance, key) for name, instance, key in self._changed if name == actor}
        return iter(sorted(found))

    # -- offers, life -----------------------------------------------------------------------------

    def offer(self, actor: str) -> Offer | None:
        """The last snapshot offered to the copy."""
        if actor not in self._offers:
            data = self._states[actor][OFFER].get("")
            self._offers[actor] = None if data is None else _offer.decode(data)
        return self._offers[actor]

    def take_offer(self, actor: str, offer: Offer) -> bool:
        """Let an offer count from now on; whether it is news."""
        known = self.offer(actor)
        if known is not None and offer.number <= known.number:
            return False
        self._offers[actor] = offer
        self._states[actor][OFFER][""] = _encode(offer).decode()
        return True

    def life(self) -> Life:
        """Whether the runtime was started, as far as the copy knows."""
        if self._life is None:
            data = self._states[""][LIFE].get("")
            self._life = Life() if data is None else _life.decode(data)
        return self._life

    def live(self, life: Life) -> None:
        """Let it be so from now on."""
        self._life = life
        self._states[""][LIFE][""] = _encode(life).decode()

    def drop(self) -> None:
        """Forget everything but what was counted: the copy has gone.

        How many events an instance has in the log is counted on, so no two have one number.
        """
        seen = {
            (actor, instance): _kept.decode(groups[""]).seen
            for actor, instances in self._states.items()
            for instance, groups in instances.items()
            if instance >= 0 and "" in groups
        }
        self._states.clear()
        for (actor, instance), count in seen.items():
            if count:
                self._states[actor][instance][""] = _encode(Kept(seen=count)).decode()
        self._answers.clear()
        self._kept, self._changed, self._offers, self._life = {}, {}, {}, None

    # -- counts and answers -----------------------------------------------------------------------

    def counted(self, actor: str, statistic: str) -> int:
        """How often something has happened."""
        place = (actor, statistic)
        if place not in self._counted:
            self._counted[place] = self._statistics[actor].get(statistic, 0)
        return self._counted[place] + self._counts.get(place, 0)

    def count(self, actor: str, statistic: str, more: int) -> None:
        """Count that it has happened so often again."""
        if more:
            place = (actor, statistic)
            self._counts[place] = self._counts.get(place, 0) + more

    def fail(self, actor: str, failure: Failure) -> None:
        """Remember the last event that could not be processed."""
        self._failures[actor] = failure

    def answer(self, name: str, answer: Any, now_ms: int) -> None:
        """Answer a shunt; answers that nobody waits for any more go."""
        for old in list(self._answers.range_keys(end=f"{now_ms - ANSWER_MS:015d}")):  # type: ignore[attr-defined]
            del self._answers[old]
        try:
            data = _encode(answer)
        except UNWRITABLE as error:
            data = _encode({**answer, "success": False, "reason": str(error), **_NOTHING})
        self._answers[name] = data.decode()

    def write(self) -> None:
        """Write back what has changed, once, at the end of the call."""
        for (actor, instance, key), kept in self._changed.items():
            try:
                data = _encode(kept).decode()
            except UNWRITABLE as error:  # a type's defect: what was kept before stays
                self.count(actor, "failure", 1)
                reason = f"its state cannot be kept: {type(error).__name__}: {error}"[:500]
                self.fail(actor, Failure(reason, 0))
                continue
            self._states[actor][instance][key] = data
        for actor, failure in self._failures.items():
            self._states[actor][FAILURE][""] = _encode(failure).decode()
        for (actor, statistic), more in self._counts.items():
            known = self._statistics[actor]
            known[statistic] = known.get(statistic, 0) + more
        self._changed, self._failures, self._counts = {}, {}, {}
        self._counted = {}
