"""Fills new PStates beside the topology that they belong to, and lets them join it.

The steps that lead to them run as a topology of its own, with plans, commits and stores of its
own, over the records from where the topology began up to its last commit. When it is level, a
commit of the topology brings the PStates in (:mod:`atoll.microbatch.commits.joining`); before
that object they are being filled, after it they have joined, whoever dies in between. Then the
topology goes on with all of its steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.cluster.backfill.deciding import Pace, Standing
from atoll.depot.logs.followed import LogDepot
from atoll.errors import AtollError, StateError, TopologyFailedError
from atoll.logs import get_logger
from atoll.microbatch import events as ev
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.joining import files_named, filled_by, nothing, taken_in
from atoll.microbatch.commits.progress import known_checkpoints, standing_commits
from atoll.microbatch.plans.planning import padded
from atoll.views.filling import is_in

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.depot.mirror import MirrorDepot
    from atoll.microbatch.actions import Actions
    from atoll.microbatch.commits.objects import Commit
    from atoll.microbatch.control.options import Options
    from atoll.microbatch.stepping import Stepper
    from atoll.pstate.store.history import FileRef
    from atoll.storage.roots import RootStore
    from atoll.views.deployment import FillingDeployment

_log = get_logger("atoll.cluster")

_LOOK_SECONDS = 0.01


class UpTo:
    """A depot that seems to end where a topology's last commit ended.

    Args:
        depot: The depot.
        name: As that topology knows it.
        main: The topology.
    """

    def __init__(self, depot: Depot | MirrorDepot, name: str, main: Stepper) -> None:
        self._depot = depot
        self._name = name
        self._main = main

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""
        return tuple(self._depot.start_offsets())[: len(self.end_offsets())]

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, how far the topology has read."""
        return tuple(self._main.published.ends()[self._name])

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """As the depot says."""
        return self._depot.sizes(partition, start, end, enough)

    def check_progress(
        self, done: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        """As the depot says: of a log what is to be filled may be gone."""
        if isinstance(self._depot, LogDepot):
            self._depot.check_progress(done, starts, ends)


def while_filling(options: Options) -> Options:
    """A topology's options for what fills: its microbatches are short, since the others wait."""
    name = "depot.microbatch.max.records"
    most = min(options.microbatch_records_max, options.filling_records_max)
    by_depot = {
        depot: {each: value for each, value in values.items() if each != name}
        for depot, values in options.by_depot.items()
    }
    return replace(options, microbatch_records_max=most, by_depot=by_depot)


@dataclass(frozen=True)
class Whole:
    """What a topology goes on with when what was filled has joined it."""

    actions: Callable[[Actions], Actions]
    joined: ev.Joined
    columns: list[dict[str, Any]]


class Filling:
    """What is filled beside one topology, as long as it is.

    Args:
        filling: What, and by which topology.
        main: The topology that it will be part of.
        begin: Makes what moves the topology that fills, from its last commit on.
        whole: What the first one goes on with then.
        store: The root.
        ended: Called when it has joined: nobody needs the other topology's objects any more.
        by_hand: Whether a test moves the topology: then it is filled whenever that is idle.
    """

    def __init__(  # noqa: PLR0913  # injected once
        self,
        filling: FillingDeployment,
        main: Stepper,
        begin: Callable[[], Stepper],
        whole: Whole,
        store: RootStore,
        ended: Callable[[], None],
        *,
        by_hand: bool,
    ) -> None:
        """Nothing is filled before :meth:`start`."""
        self.filling = filling
        self._main = main
        self._begin = begin
        self.filler = begin()
        self._whole = whole
        self._store = store
        self._ended = ended
        self._by_hand = by_hand
        self._asked: int | None = None
        self._holds = 0
        self._pace = Pace(while_filling(self.filler.status.state.options).microbatch_records_max)
        self._paced_by = 0
        self._over = False
        self._closing = threading.Event()
        self._ending: threading.Thread | None = None
        self._ends = threading.Lock()
        """Held while it is begun that the files of the fill go, and by who waits for that."""
        main.beside = self

    @property
    def over(self) -> bool:
        """Whether it has joined."""
        return self._over

    def get_ready(self) -> None:
        """As the topologies do: what may fail."""
        self.filler.get_ready()

    def start(self) -> None:
        """Fill from now on."""
        self._main.on_publish.append(self._tell_filler)
        self.filler.on_publish.append(self._main.notify_append)
        self.filler.start()

    def pause(self, timeout_seconds: float) -> None:
        """Fill nothing more, over restarts too, until it is resumed."""
        self.filler.pause(timeout_seconds)

    def resume(self) -> None:
        """Go on, also after it failed."""
        self.filler.resume()

    def refuse_stopped(self) -> None:
        """Raise TopologyFailedError when it has failed."""
        state = self.filler.status.state
        if state.condition == ev.Condition.FAILED and state.failure is not None:
            raise TopologyFailedError(
                f"what fills {', '.join(self.filling.pstates)} failed: {state.failure.message}",
                hint=state.failure.hint,
                **state.failure.context,
            )

    def close(self) -> None:
        """Begin nothing more; returns when nothing runs."""
        self._closing.set()
        self.filler.close()
        with self._ends:
            ending = self._ending
        if ending is not None:
            ending.join()

    def kill(self) -> None:
        """Leave off where it is; returns when nothing runs."""
        self._closing.set()
        self.filler.kill()

    # In the thread of the topology ----------------------------------------------------------------

    def between(self, state: ev.State, event: ev.Wake) -> ev.Wake | ev.Join | ev.Joined:
        """Between two of its microbatches: join, when that can be."""
        if is_in(state.last, self.filling):
            return self._go_on_whole()
        if self._by_hand:
            self._fill_by_hand()
        try:
            return self._join(state.last) if self._is_level(state) else event
        except (AtollError, OSError) as error:
            _log.warning("what is filled could not join yet", why=str(error))
            self._again()
            return event

    def _is_level(self, state: ev.State) -> bool:
        """Whether it may join now; the topology holds back for a moment where that helps."""
        self._follow(state)
        standing = self._standing(state.last)
        match standing.move:
            case "checkpoint":
                self._asked = self.filler.ask_checkpoint()
                if self._by_hand:
                    self._fill_by_hand()
                    return self._standing(state.last).move == "join"
            case "hold":
                until = time.monotonic() + standing.hold_seconds
                while time.monotonic() < until and not self._closing.wait(_LOOK_SECONDS):
                    if not self._behind(state.last) or self._main.closed:
                        break
                self._holds += 1
                return self._standing(state.last).move == "join"
        return standing.move == "join"

    def _standing(self, last: Commit) -> Standing:
        written = None
        if self._asked is not None:
            written = self.filler.status.state.asked.answered >= self._asked
        return Standing(
            self._behind(last),
            last.records,
            self._main.status.durations_ms.get("total", 0.0) / 1000.0,
            self.filler.undisturbed and not self._closing.is_set() and not self._main.closed,
            written,
            self._holds,
        )

    def _behind(self, last: Commit) -> int:
        done, ends = self.filler.published.ends(), last.ends()
        return sum(
            max(0, end - at)
            for depot, offsets in done.items()
            for at, end in zip(padded(offsets, len(ends[depot])), ends[depot], strict=True)
        )

    def _follow(self, state: ev.State) -> None:
        """Let it run where the topology does, and with its options."""
        mine = self.filler.status.state
        options = self._paced(while_filling(state.options))
        if mine.options != options:
            self.filler.set_options(options)
        if mine.placement != state.placement and mine.placing is None:
            self.filler.move_to(state.placement)

    def _paced(self, options: Options) -> Options:
        """The options, with so many records as let the topology commit about as often as ever."""
        commit, most = self.filler.published, options.microbatch_records_max
        if commit.id != self._paced_by:
            self._paced_by = commit.id
            taken = max((b - a for each in commit.ranges.values() for a, b in each), default=0)
            took_ms = self.filler.status.durations_ms.get("total", 0.0)
            self._pace = self._pace.after(most, taken, took_ms, self._calm_ms())
        return replace(options, microbatch_records_max=min(most, self._pace.records_max))

    def _calm_ms(self) -> float | None:
        """How long the faster ones of the topology's last microbatches took."""
        found = sorted(each["total"] for each in self._main.status.recent() if each["records"])
        return found[len(found) // 4] if found else None

    def _join(self, last: Commit) -> ev.Join:
        """Nothing of it runs any more; its files are the topology's too."""
        self.filler.close()
        commit = self.filler.published
        commit_id = last.id + 1
        module = self._main.actions.module
        if latest_commit(self._store, module, self.filling.name).id != commit.id:
            raise StateError("it was closed within a microbatch")  # which goes on to its end
        counts = self._whole.joined.vnode_counts
        pstates = {name: nothing(counts[name], commit_id) for name in self.filling.stored}
        if commit.id:
            of = (self._store, module, self.filling.name, commit)
            filled = filled_by(standing_commits(*of), known_checkpoints(*of))
            pstates |= taken_in(filled, commit_id)
            pstates = files_named(pstates, lambda ref: self._linked(ref, commit_id))
        ends = commit.ends()
        return ev.Join(commit_id, pstates, commit.clocks, ends, self._main.actions.now_ms())

    def _linked(self, ref: FileRef, commit_id: int) -> FileRef:
        """A file under the topology's own name for it, so that each lets go of it by itself."""
        mine = self._main.actions
        path = PurePosixPath(ref.name).relative_to(f"{mine.module}/{self.filling.name}")
        name = f"{mine.module}/{mine.topology}/{path.parent}/{commit_id:020d}-{path.name}"
        self._store.link(ref.name, name)
        return msgspec.structs.replace(ref, name=name)

    def _go_on_whole(self) -> ev.Joined:
        main = self._main
        self._over = True
        main.beside = None
        main.take_over(replace(self._whole.actions(main.actions), littered=True))
        main.status.columns = self._whole.columns
        main.on_publish.remove(self._tell_filler)
        _log.info(
            "filled PStates have joined",
            topology=main.topology,
            pstates=list(self.filling.pstates),
            microbatch=main.status.state.last.id,
        )
        with self._ends:
            beside = not (self._by_hand or self._closing.is_set())
            if beside:  # it may be much to delete
                ending = threading.Thread(target=self._ended, name="atoll-filled", daemon=True)
                ending.start()
                self._ending = ending
        if not beside:
            self._ended()
        return self._whole.joined

    def _again(self) -> None:
        """Go on filling after it was closed to join, and did not."""
        if self.filler.closed and not self._closing.is_set():
            self.filler = self._begin()
            self._asked = None
            self.filler.on_publish.append(self._main.notify_append)
            self.filler.start()

    def _tell_filler(self) -> None:
        self.filler.notify_append()

    def _fill_by_hand(self) -> None:
        move: Any = self.filler
        while move.microbatch() is not None:
            pass

    # For whoever looks ----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """How far it is."""
        status, commit = self.filler.status, self.filler.published
        failure = status.state.failure
        left = self._behind(self._main.published)
        rate = status.records_per_second()
        return {
            "pstates": list(self.filling.pstates),
            "state": str(status.state.condition),
            "records": commit.processed,
            "records_left": left,
            "records_per_second": round(rate, 1),
            "seconds_left": round(left / rate, 1) if rate else None,
            "microbatches": commit.id,
            "error": None
            if failure is None
            else {"code": failure.code, "message": failure.message, "hint": failure.hint},
        }
