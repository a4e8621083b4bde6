"""One simulated process: a life of the coordinator, driven event by event."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

from sim_executor import SimExecutor
from sim_world import (
    DEPOT,
    KEYS,
    MODULE,
    PARTITIONS,
    PSTATE,
    TOPOLOGY,
    VNODES,
    Crash,
    SimStore,
    Violation,
    World,
    cleared,
)

from atoll.errors import AtollError
from atoll.microbatch import events as ev
from atoll.microbatch.actions import Actions
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.progress import (
    beginning,
    known_checkpoints,
    settle_commit,
    with_starts,
)
from atoll.microbatch.commits.rollback import complete_rollback
from atoll.microbatch.commits.tidy import drop_orphans
from atoll.microbatch.control.options import Options
from atoll.microbatch.coordinator import decide
from atoll.microbatch.epochs import claim_epoch
from atoll.placement.mapping import Mapping
from atoll.placement.placement import Placement
from atoll.storage.local import LocalStore

_PROCESSES_MAX = 3
_QUIET_STEPS_MAX = 1_000
_BYTES_MAX = (10, 100, 200, 1_000)
_SECONDS = (0, 0, 1, 3)
_MICROBATCHES = (2, 3, 3, 6)
STARTS = {DEPOT: [0] * PARTITIONS}
OPTIONS = Options().with_values(
    {
        "depot.microbatch.max.records": 4,
        "pstate.checkpoint.interval.commits": 5,
        "topology.microbatch.retry.max.attempts": 4,
    }
)


class SimProcess:
    """Starts like a deployment does, then takes one step of the protocol at a time."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.owner = f"process {number}"
        self.alive = True
        self.busy = False
        self.waiting = None
        self.event = None
        self.state = None
        self.span_ms = 0
        self.store = SimStore(world, self.owner)

    def start(self) -> None:
        """Take the next epoch and read the progress from the objects alone."""
        with self._guarded():
            self.epoch = claim_epoch(self.store, MODULE)
            complete_rollback(self.store, MODULE, TOPOLOGY)
            last = latest_commit(self.store, MODULE, TOPOLOGY)
            settle_commit(self.store, MODULE, TOPOLOGY, last)
            if last.id:
                drop_orphans(self.store, MODULE, TOPOLOGY, last)
            first = beginning(self.store, MODULE, TOPOLOGY, last)
            self.state = ev.State(
                epoch=self.epoch.number,
                options=_options(self.world),
                last=with_starts(last, STARTS, [DEPOT]),
                vnode_counts={PSTATE: VNODES},
                checkpoints=known_checkpoints(self.store, MODULE, TOPOLOGY, last),
            )
            self.actions = Actions(
                MODULE,
                TOPOLOGY,
                self.store,
                self.epoch,
                SimExecutor(self.world, self.owner, self.store),
                {DEPOT: self.world.depot},
                OPTIONS,
                lambda: self.world.now_ms,
                lambda: self.world.steady_ms,
                floor=last.floor,
                publish=self._published,
                deliver=self.world.deliver,
                starts=STARTS,
                timeline=last.timeline,
            )
            self.event = first

    def step(self) -> None:
        """Decide, and do what was decided; or wait, which costs a step."""
        with self._guarded():
            if isinstance(self.event, ev.AttemptSucceeded):
                self.span_ms = self.state.options.history_millis
            self.state, command = decide(self.state, self.event)
            self.world.note(self.owner, type(self.event).__name__, type(command).__name__)
            match command:
                case ev.Wait():
                    self.event = self._after_waiting()
                case ev.Halt():
                    self.world.counts["fenced"] += 1
                    self.alive = False
                case _:
                    self.actions.options = self.state.options
                    self.event = self.actions.perform(command)
                    self.world.counts["cut"] += isinstance(self.event, ev.PlanCut)

    def request(self, event: ev.Event) -> None:
        """Something that a user asks for; taken up at the next wait."""
        self.waiting = event

    def _after_waiting(self):
        if self.waiting is not None:
            event, self.waiting = self.waiting, None
            return event
        if self.state.condition in (ev.Condition.FAILED, ev.Condition.PAUSED):
            return ev.Resume() if self.world.rng.random() < 0.3 else self._woken()
        return self._woken()

    def _woken(self):
        return self.actions.look(self.state.last) if self.state.step == ev.Step.IDLE else ev.Retry()

    def _published(self, commit) -> None:
        world = self.world
        if commit.timeline > self.state.last.timeline:
            world.counts["rollbacks"] += 1
        world.counts["commits"] += 1
        if commit.epoch != self.epoch.number:
            world.counts["adopted"] += 1
        if commit.timeline == self.state.last.timeline:
            world.check_published(commit, self.state.last)
            if commit.epoch == self.epoch.number:
                world.check_kept(commit, self.state.last, self.span_ms)
        world.check_state(LocalStore(world.root), commit)
        world.check_readable()

    @contextlib.contextmanager
    def _guarded(self):
        """A process that crashes is gone; one that fails to start is as well."""
        self.busy = True
        try:
            yield
        except Crash:
            self.world.counts["crashes"] += 1
            self.alive = False
        except AtollError as error:
            if self.state is not None:
                message = f"{self.owner} let {error!r} escape"
                raise Violation(message) from error
            if self.world.quiet:
                raise
            self.alive = False
        finally:
            self.busy = False


def simulate(seed: int, folder: Path, steps: int = 160) -> World:
    """One world from its first record to its quiet end.

    Raises:
        Violation: When something that must always hold did not.
    """
    world = World(seed, cleared(folder))
    world.begin_life = lambda: _new_life(world)
    rng = world.rng
    try:
        for world.steps in range(steps):
            _one_step(world, rng)
        _quiet_end(world)
    finally:
        world.environments.close()
    return world


def _one_step(world: World, rng: random.Random) -> None:
    world.now_ms += 1
    alive = [each for each in world.processes if each.alive]
    choice = rng.random()
    if choice < 0.15:
        for _ in range(rng.randrange(1, 6)):
            record = (rng.randrange(KEYS), rng.randrange(-5, 100))
            world.depot.records[rng.randrange(PARTITIONS)].append(record)
    elif not alive or (choice < 0.17 and len(alive) < _PROCESSES_MAX):
        _new_life(world)
    elif choice < 0.2 and world.late:
        executor, task = world.late.pop(rng.randrange(len(world.late)))
        with contextlib.suppress(Crash):
            executor.act_late(task)
    elif choice < 0.22:
        _request(world, rng.choice(alive))
    else:
        rng.choice(alive).step()


def _request(world: World, process: SimProcess) -> None:
    """What users do: pause, resume, ask for a checkpoint, run elsewhere, go back."""
    if world.sizing.random() < 0.2:
        process.request(ev.SetOptions(_options(world)))
        return
    match world.rng.randrange(7):
        case 0:
            process.request(ev.Pause())
        case 1:
            process.request(ev.Resume())
        case 2:
            process.request(ev.AskCheckpoint())
        case 3:
            owners = tuple(world.rng.randrange(4) for _ in range(VNODES))
            world.counts["placements"] += 1
            placement = Placement(world.counts["placements"], (0,), {PSTATE: Mapping(owners)})
            process.request(ev.MoveTo(world.ticket(), placement))
        case _ if process.state is not None:
            back = world.rng.randrange(5)
            to = max(0, process.state.last.id - back)
            process.request(ev.RollBack(world.ticket(), to, keep_appended=True))


def _options(world: World) -> Options:
    """The options with some limit of bytes and some history, other ones each time."""
    return OPTIONS.with_values(
        {
            "depot.microbatch.max.bytes": world.sizing.choice(_BYTES_MAX),
            "pstate.history.seconds": world.keeping.choice(_SECONDS),
            "pstate.history.microbatches": world.keeping.choice(_MICROBATCHES),
            "topology.microbatch.pipeline": world.pipeline,
        }
    )


def _new_life(world: World) -> SimProcess:
    world.counts["lives"] += 1
    process = SimProcess(world, world.counts["lives"])
    world.processes.append(process)
    process.start()
    return process


def _quiet_end(world: World) -> None:
    """No more faults: the newest life processes everything, and the others find out and stop."""
    world.faults.stop()
    world.quiet = True
    newest = _new_life(world)
    ends = list(world.depot.end_offsets())
    for _ in range(_QUIET_STEPS_MAX):
        world.steps += 1
        for process in world.processes:
            if process.alive:
                process.step()
        done = newest.state.last.ends()[DEPOT] == ends and newest.state.step == ev.Step.IDLE
        alone = not any(each.alive for each in world.processes if each is not newest)
        if done and alone and newest.state.condition == ev.Condition.RUNNING:
            break
    else:
        alive = [each.owner for each in world.processes if each.alive]
        message = f"not done after {_QUIET_STEPS_MAX} steps: {alive} live, {newest.state}"
        raise Violation(message)
    if newest.state.last.id:
        world.check_state(LocalStore(world.root), newest.state.last)
    world.check_end(LocalStore(world.root), newest.state.last)
