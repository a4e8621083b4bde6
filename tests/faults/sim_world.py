"""A deterministic simulation: several coordinators, one faulty store, one seed.

Everything that decides is the real code: ``decide``, ``Actions``, plans and commits, checkpoints,
tidying, timelines, the opening of vnode stores. What is simulated is the world around it: which
process runs when, what the store does to an operation (refuses it, loses the reply, lets others
go on in between, kills the process before or after it), tasks that fail, run twice or run late,
local stores that vanish. All choices come from one random generator, and nothing runs at the same
time, so a seed always gives the same trace.

A process that is stopped in the middle of an operation, while others run, is simulated by letting
the others run inside that operation: so a coordinator may sleep through several commits of another
one between looking at the epoch and creating its own commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
import struct
from pathlib import Path

from atoll.errors import AtollError, StorageError
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.history import CommitHistory, read_commit
from atoll.microbatch.objects import AppendedRows, CheckpointFile, LogFile
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome
from atoll.microbatch.progress import standing_commits
from atoll.microbatch.tidy import files_of
from atoll.placement.mapping import Mapping
from atoll.pstate.attempt import Attempt
from atoll.pstate.changefile import write_change_file
from atoll.pstate.environment import EnvironmentCache
from atoll.pstate.history import FileRef, Prior
from atoll.pstate.stores import VnodeStores
from atoll.pstate.view import PStateView
from atoll.storage.local import LocalStore
from atoll.storage.numbered import number_name

MODULE, TOPOLOGY, PSTATE, DEPOT = "m", "t", "sums", "d"
VNODES, UNITS, PARTITIONS, KEYS = 3, 2, 2, 7
_VALUE = struct.Struct("<qqq")
_NEST_MAX = 2
_START_CHANCE = 0.01
_OTHERS_MAX = 2


class Crash(BaseException):
    """The process dies here."""


class Violation(BaseException):
    """Something that must always hold does not."""


def record_bytes(amount):
    """How many bytes a record of an amount takes."""
    return 1 + abs(amount)


class Faults:
    """How likely each fault is; all zero in the quiet end."""

    def __init__(self, rng: random.Random) -> None:
        level = rng.choice([0.0, 0.5, 1.0, 2.0])
        self.refuse = 0.005 * level
        self.lose_reply = 0.02 * level
        self.crash = 0.003 * level
        self.nest = rng.choice([0.0, 0.02, 0.06])
        self.task = 0.05 * level
        self.twin = rng.choice([0.0, 0.1])
        self.late = rng.choice([0.0, 0.1])
        self.vanish = rng.choice([0.0, 0.05])

    def stop(self) -> None:
        """From now on the world is well."""
        for name in vars(self):
            setattr(self, name, 0.0)


class SimStore(LocalStore):
    """A store as one process sees it: each operation may fail, lose its reply, or be slept in."""

    def __init__(self, world: World, owner: str) -> None:
        super().__init__(world.root)
        self.world = world
        self.owner = owner

    def create(self, name, data):
        """Create if absent; the reply may be lost."""
        with self.world.around(self.owner, "create", name):
            super().create(name, data)

    def write(self, name, data):
        """Write a file of a unique name; the reply may be lost."""
        with self.world.around(self.owner, "write", name):
            super().write(name, data)

    def read(self, name):
        """Read, or be refused."""
        with self.world.around(self.owner, "read", name):
            return super().read(name)

    def exists(self, name):
        """Look, perhaps after a sleep."""
        self.world.asleep(self.owner)
        return super().exists(name)

    def delete(self, name):
        """Delete, or be refused."""
        with self.world.around(self.owner, "delete", name):
            super().delete(name)


class SimDepot:
    """A depot partition is a list of (key, amount)."""

    def __init__(self) -> None:
        self.records = [[] for _ in range(PARTITIONS)]

    def start_offsets(self):
        """Nothing is ever trimmed."""
        return (0,) * PARTITIONS

    def end_offsets(self):
        """What was appended so far."""
        return tuple(len(each) for each in self.records)

    def sizes(self, partition, start, end, enough):
        """Each record is a run of its own, of as many bytes as its amount."""
        amounts = (amount for _, amount in self.records[partition][start:end])
        return [(start + at, record_bytes(amount)) for at, amount in enumerate(amounts, 1)]


class World:
    """Everything outside the processes, and the one generator that decides."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.root = root
        self.faults = Faults(self.rng)
        self.depot = SimDepot()
        self.processes = []
        self.late = []
        self.trace = hashlib.sha256()
        self.steps = 0
        self.now_ms = 0
        self.depth = 0
        self.tickets = 0
        self.quiet = False
        self.counts = dict.fromkeys(
            ("refused", "lost", "crashes", "slept", "twins", "late", "task", "vanished",
             "fenced", "adopted", "rollbacks", "placements", "commits", "lives", "checks",
             "too large", "cut", "cut commits"), 0
        )  # fmt: skip
        self.sizing = random.Random(f"sizes of {seed}")
        self.room = self.sizing.choice([None, 300, 150, 60])
        """How many bytes of records an attempt has memory for; one record always fits."""
        self.ranges = {}
        """By (timeline, id): by revision, the ranges of the first attempt; every other one at the
        revision must read those, and a later revision fewer."""
        self.committed = {}
        """By (timeline, id): (epoch, tokens) as first seen published."""
        self.delivered = {}
        """By (timeline, id): how many rows the target depot took, once."""
        self.begin_life = None
        """Starts another process; set by whoever runs the world."""
        self.environments = EnvironmentCache(open_max=64, map_bytes=1 << 20)
        self.stores = VnodeStores(
            root / "local" / "state" / MODULE, microbatches_kept=3, environments=self.environments
        )

    # Faults of operations -----------------------------------------------------------------------

    @contextlib.contextmanager
    def around(self, owner, what, name):
        """One operation of the store: what may happen before and after it."""
        self.asleep(owner)
        self.chance_of_crash(owner)
        if self.rng.random() < self.faults.refuse:
            self.counts["refused"] += 1
            self.note(owner, "refused", what)
            raise StorageError("the disk refused: simulated", file=name)
        yield
        self.chance_of_crash(owner)
        if what in ("create", "write") and self.rng.random() < self.faults.lose_reply:
            self.counts["lost"] += 1
            self.note(owner, "reply lost", what)
            raise StorageError("the reply was lost: simulated", file=name)

    def asleep(self, owner):
        """Perhaps the process is stopped here while others go on for a while."""
        if self.depth >= _NEST_MAX or self.rng.random() >= self.faults.nest:
            return
        self.counts["slept"] += 1
        self.note(owner, "sleeps", "")
        self.depth += 1
        try:
            for _ in range(self.rng.choice([1, 3, 10, 30])):
                self._step_another(owner)
        finally:
            self.depth -= 1
        self.note(owner, "wakes", "")

    def _step_another(self, owner):
        """A step of a process that is not stopped; perhaps one that has just been started."""
        others = [each for each in self.processes if each.alive and not each.busy]
        if self.rng.random() < _START_CHANCE and len(others) < _OTHERS_MAX:
            others.append(self.begin_life())
        if not others:
            return
        other = self.rng.choice(others)
        if other.alive and other.owner != owner:
            other.step()

    def chance_of_crash(self, owner):
        """Perhaps the process dies here."""
        if self.rng.random() < self.faults.crash:
            self.note(owner, "crashes", "")
            raise Crash

    def ticket(self):
        """A number for a request, higher than all before."""
        self.tickets += 1
        return self.tickets

    def note(self, *what):
        """One line of the trace."""
        self.trace.update(repr((self.steps, *what)).encode())

    # What must hold -----------------------------------------------------------------------------

    def check_plan(self, timeline, plan):
        """Every attempt at a revision reads the same records, at a later one fewer of them."""
        known = self.ranges.setdefault((timeline, plan.id), {})
        first = known.setdefault(plan.revision, plan.ranges)
        _hold(first == plan.ranges, f"attempts at {plan.id} read {first} and {plan.ranges}")
        for revision, ranges in known.items():
            less, more = sorted([(revision, ranges), (plan.revision, plan.ranges)], reverse=True)
            fits = less == more or (_within(less[1], more[1]) and _rows(less[1]) < _rows(more[1]))
            _hold(fits, f"revision {less} of plan {plan.id} is no beginning of {more}")

    def check_published(self, commit, before):
        """A commit that a process publishes is the only one of its id, and follows the last."""
        newer = self.root / MODULE / TOPOLOGY / "timelines" / number_name(commit.timeline + 1)
        _hold(not newer.exists(), f"{commit.id} is published on a timeline that has ended")
        stored = read_commit(LocalStore(self.root), MODULE, TOPOLOGY, commit.id)
        _hold(stored == commit, f"what is published as {commit.id} is not the commit object")
        key = (commit.timeline, commit.id)
        first = self.committed.setdefault(key, (commit.epoch, tuple(commit.tokens)))
        _hold(first == (commit.epoch, tuple(commit.tokens)), f"two commits {key}")
        _hold(commit.id == before.id + 1, f"commit {commit.id} follows {before.id}")
        ran = self.ranges[key][commit.revision]
        _hold(ran == commit.ranges, f"commit {commit.id} names {commit.ranges}, but ran {ran}")
        self.counts["cut commits"] += commit.revision > 0
        if before.id:
            for (_, end), (start, _) in zip(
                before.ranges[DEPOT], commit.ranges[DEPOT], strict=True
            ):
                _hold(start == end, f"commit {commit.id} starts at {start}, not {end}")

    def check_state(self, store, commit):
        """What readers see as of a commit is the fold of its records, by another code."""
        self.counts["checks"] += 1
        expected = {}
        for records, (_, end) in zip(self.depot.records, commit.ranges[DEPOT], strict=True):
            for key, amount in records[:end]:
                for target, delta in ((key, amount), ((key * 3 + 1) % KEYS, 1)):
                    total, count = expected.get(target, (0, 0))
                    expected[target] = (total + delta, count + 1)
        history = CommitHistory(store, MODULE, TOPOLOGY, commit)
        view = PStateView(self.stores, PSTATE, VNODES, history)
        found = {
            key[0]: _VALUE.unpack(value)[:2]
            for vnode in range(VNODES)
            for key, value in view.scan(vnode)
        }
        _hold(found == expected, f"as of commit {commit.id}: {found} instead of {expected}")

    def check_end(self, store, last):
        """Every commit's rows were delivered once; nothing of failed attempts is left over."""
        commits = standing_commits(store, MODULE, TOPOLOGY, last)
        for commit in commits:
            rows = sum(each.file.rows for each in commit.appends)
            found = self.delivered.get((commit.timeline, commit.id), 0)
            _hold(rows == found, f"commit {commit.id} delivered {found} of {rows} rows")
        named = {name for commit in commits for name in files_of(commit)}
        missing = [name for name in named if "/" in name[8:] and not store.exists(name)]
        _hold(not missing, f"{missing} are named by commits, but missing")

    def deliver(self, commit):
        """The target depot, as an idempotent consumer of (timeline, id)."""
        self.chance_of_crash("delivery")
        if self.rng.random() < self.faults.refuse:
            raise StorageError("the target depot refused: simulated")
        rows = sum(each.file.rows for each in commit.appends)
        self.delivered.setdefault((commit.timeline, commit.id), rows)
        self.chance_of_crash("delivery")


class SimExecutor:
    """Runs two jobs of actors over real vnode stores; the second sees what the first wrote."""

    def __init__(self, world: World, owner: str, store: SimStore) -> None:
        self.world = world
        self.owner = owner
        self.store = store

    def cancel(self):
        """Attempts here never hang."""

    def prepare(self, placement, commit):
        """Nothing."""

    def tune(self, options):
        """All options are alike here."""

    def forget(self, microbatch):
        """Nothing is staged."""

    def run(self, plan, epoch, version, placement, timeout_seconds):
        """Both jobs, unit by unit; a task may fail, run twice, or run again later."""
        world, rng = self.world, self.world.rng
        world.check_plan(plan.timeline, plan)
        done = []
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
        rows = self._rows(plan, job)
        mine = sorted(v for v in {*rows, *due} if v in owned)
        priors = _priors(done)
        changed, checkpoints, sessions = [], [], []
        try:
            for vnode in mine:
                session = world.stores.open(PSTATE, vnode, attempt, history, priors)
                sessions.append(session)
            for vnode, session in zip(mine, sessions, strict=True):
                for key, delta in rows.get(vnode, ()):
                    old = session.get(bytes([key])) or _VALUE.pack(0, 0, 0)
                    total, count, _ = _VALUE.unpack(old)
                    session.put(bytes([key]), _VALUE.pack(total + delta, count + 1, plan.id))
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


def _within(less, more):
    """Whether ranges are the beginnings of others."""
    pairs = zip(less[DEPOT], more[DEPOT], strict=True)
    return all(one[0] == other[0] and one[1] <= other[1] for one, other in pairs)


def _rows(ranges):
    return sum(end - start for start, end in ranges[DEPOT])


def _priors(done):
    return tuple(
        Prior(each.index, frozenset(each.tokens), tuple(log.file for log in each.logs(PSTATE)))
        for each in done
    )


def _hold(condition, message):
    if not condition:
        raise Violation(message)


def cleared(root: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return root
