"""What runs the attempts of a simulated process: two jobs of actors over real vnode stores."""

from __future__ import annotations

import contextlib

from sim_world import (
    DEPOT,
    KEYS,
    MODULE,
    PSTATE,
    TOPOLOGY,
    UNITS,
    VALUE,
    VNODES,
    SimStore,
    World,
)

from atoll.errors import AtollError
from atoll.microbatch.commits.history import CommitHistory
from atoll.microbatch.commits.objects import AppendedRows, CheckpointFile, LogFile
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome
from atoll.placement.mapping import Mapping
from atoll.pstate.store.attempt import Attempt
from atoll.pstate.store.changefile import write_change_file
from atoll.pstate.store.history import FileRef, Prior


class SimExecutor:
    """Runs two jobs of actors over real vnode stores; the second sees what the first wrote."""

    def __init__(self, world: World, owner: str, store: SimStore) -> None:
        self.world = world
        self.owner = owner
        self.store = store
        self.ahead = None
        self.last = None
        self.read = None

    def cancel(self):
        """Attempts here never hang."""

    def prepare(self, placement, commit):
        """Nothing."""

    def tune(self, options):
        """All options are alike here."""

    def forget(self, microbatch):
        """Nothing is staged."""

    def read_ahead(self, plan):
        """Read what no plan stands for yet; the next attempt uses it if it reads the same."""
        self.world.check_ahead(self.last, plan)
        self.ahead = plan, self._rows(plan, 0)

    def end_reading_ahead(self):
        """It ends at once."""

    def run(self, plan, epoch, version, placement, timeout_seconds):
        """Both jobs, unit by unit; a task may fail, run twice, or run again later."""
        world, rng = self.world, self.world.rng
        world.check_plan(plan.timeline, plan)
        done, self.last = [], plan
        self.read = self._taken(plan)
        fails_at = self._fails_at(plan, placement)
        for job in range(2):
            manifests = []
            for actor in _actors(placement):
                world.asleep(self.owner)
                world.chance_of_crash(self.owner)
                if fails_at == 0:
                    world.counts["too large"] += 1
                    raise AttemptError(ActorFailure("E-TOO-LARGE", "out of memory: simulated"))
                fails_at -= 1
                if rng.random() < world.faults.task:
                    world.counts["task"] += 1
                    raise AttemptError(ActorFailure("E-USER-CODE", "a task failed: simulated"))
                if rng.random() < world.faults.vanish:
                    world.counts["vanished"] += 1
                    world.stores.discard(PSTATE, rng.randrange(VNODES))
                manifests.append(self._run_unit(plan, epoch, version, job, actor, tuple(done)))
            done.append(JobOutcome(job, manifests))
        return Outcome(done)

    def _taken(self, plan):
        """The rows that were read ahead of an attempt; they are used once."""
        ahead, self.ahead = self.ahead, None
        if ahead is None:
            return None
        guess, rows = ahead
        same = (guess.id, guess.timeline, guess.ranges) == (plan.id, plan.timeline, plan.ranges)
        self.world.counts["ahead" if same else "ahead in vain"] += 1
        return rows if same else None

    def _fails_at(self, plan, placement):
        """Before which of its tasks an attempt runs out of memory; -1 when it does not."""
        world = self.world
        need = sum(
            size
            for index, (start, end) in enumerate(plan.ranges[DEPOT])
            for _, size in world.depot.sizes(index, start, end, 0)
        )
        if world.room is None or need <= world.room or plan.records == 1:
            return -1
        return world.sizing.randrange(2 * len(_actors(placement)))

    def _run_unit(self, *task):
        world, rng = self.world, self.world.rng
        manifest = self._act(*task)
        if rng.random() < world.faults.twin:
            world.counts["twins"] += 1
            manifest = rng.choice([manifest, self._act(*task)])
        if rng.random() < world.faults.late:
            world.late.append((self, task))
        return manifest

    def act_late(self, task):
        """The same task once more, whenever it is: it must change nothing that counts."""
        self.world.counts["late"] += 1
        with contextlib.suppress(AtollError, AttemptError):
            self._act(*task)

    def _act(self, plan, epoch, version, job, actor, done):
        try:
            return self._acted(plan, epoch, version, job, actor, done)
        except AtollError as error:
            failure = ActorFailure(error.code, error.message, error.hint)
            raise AttemptError(failure) from error

    def _acted(self, plan, epoch, version, job, actor, done):
        world = self.world
        unit, owned = actor
        token = f"{world.rng.getrandbits(64):016x}"
        attempt = Attempt(epoch, plan.id, version, job, token, plan.timeline)
        history = CommitHistory.open(self.store, MODULE, TOPOLOGY, plan.id - 1, plan.timeline)
        due = plan.checkpoint_vnodes.get(PSTATE, []) if job == 1 else []
        ahead = None if job or plan is not self.last else self.read
        rows = self._rows(plan, job) if ahead is None else ahead
        mine = sorted(v for v in {*rows, *due} if v in owned)
        priors = _priors(done)
        changed, checkpoints, sessions = [], [], []
        try:
            for vnode in mine:
                session = world.stores.open(PSTATE, vnode, attempt, history, priors)
                sessions.append(session)
            for vnode, session in zip(mine, sessions, strict=True):
                for key, delta in rows.get(vnode, ()):
                    old = session.get(bytes([key])) or VALUE.pack(0, 0, 0)
                    total, count, _ = VALUE.unpack(old)
                    session.put(bytes([key]), VALUE.pack(total + delta, count + 1, plan.id))
                if vnode in due:
                    checkpoints.append((vnode, *session.dump()))
            for vnode, session in zip(mine, sessions, strict=True):
                changes = session.commit()
                if changes.keys:
                    changed.append((vnode, changes.keys, changes.values))
        finally:
            for session in sessions:
                session.abort()
        return self._manifest(plan, unit, token, changed, checkpoints)

    def _manifest(self, plan, unit, token, changed, checkpoints):
        prefix = f"{MODULE}/{TOPOLOGY}"
        name = f"{plan.id:020d}-{token}"
        logs, written = {}, {}
        if checkpoints:
            ref = write_change_file(
                self.store, f"{prefix}/checkpoints/{PSTATE}/{name}.arrow", checkpoints
            )
            vnodes = [vnode for vnode, _, _ in checkpoints]
            written[PSTATE] = CheckpointFile(ref, vnodes, [plan.id] * len(vnodes))
        if changed:
            ref = write_change_file(self.store, f"{prefix}/logs/{PSTATE}/{name}.arrow", changed)
            logs[PSTATE] = LogFile(ref, [vnode for vnode, _, _ in changed])
        rows = sum(len(keys) for _, keys, _ in changed)
        appends = [AppendedRows("out", FileRef(f"appends/{name}", 0, 0, rows))] if rows else []
        return Manifest(token, unit, logs=logs, checkpoints=written, appends=appends)

    def _rows(self, plan, job):
        """By vnode, the keys and what is added to each, in order."""
        rows = {}
        ranges = plan.ranges[DEPOT]
        for records, (start, end) in zip(self.world.depot.records, ranges, strict=True):
            for key, amount in records[start:end]:
                target, delta = (key, amount) if job == 0 else ((key * 3 + 1) % KEYS, 1)
                rows.setdefault(target % VNODES, []).append((target, delta))
        return rows


def _actors(placement):
    """(unit, its vnodes) of each actor; before anything was placed, two of them."""
    mapping = placement.mappings.get(PSTATE) or Mapping.even(VNODES, range(UNITS))
    return [(unit, frozenset(mapping.vnodes(unit))) for unit in mapping.unit_ids()]


def _priors(done):
    return tuple(
        Prior(each.index, frozenset(each.tokens), tuple(log.file for log in each.logs(PSTATE)))
        for each in done
    )
