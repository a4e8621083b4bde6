"""A committed log in a folder, as the microbatch layer would keep it, for the store's tests.

This file is also run by the processes that tests start (``runpy.run_path``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from atoll.pstate.store.attempt import Attempt
from atoll.pstate.store.changefile import write_change_file
from atoll.pstate.store.environment import EnvironmentCache
from atoll.pstate.store.history import FileRef, Prior, Rebuild
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.view import PStateView
from atoll.storage.local import LocalStore

PSTATE = "counts"


class Run:
    """What one task run left: its token, and a log file when it changed something."""

    def __init__(self, token, step, log):
        """Keep them."""
        self.token = token
        self.step = step
        self.log = log


class FakeHistory:
    """The log as of one commit; implements ``History``."""

    def __init__(self, world, commit_id):
        """Bind to the timeline of now."""
        self.world = world
        self.commit_id = commit_id
        self.branches = tuple(world.branches)
        self.log = tuple(world.commits)

    @property
    def timeline(self):
        """See the protocol."""
        return len(self.branches)

    @property
    def horizon(self):
        """See the protocol."""
        return max(0, self.commit_id - self.world.kept)

    def branch_since(self, timeline):
        """See the protocol."""
        return min(self.branches[timeline:], default=None)

    def _commits(self):
        return [each for each in self.log if each["id"] <= self.commit_id]

    def last_touched(self, pstate, vnode):
        """See the protocol."""
        touching = [c["id"] for c in self._commits() for log in c["logs"] if vnode in log[2]]
        return max(touching, default=0)

    def committed_tokens(self, pstate, vnode, commit_id):
        """See the protocol."""
        return frozenset(t for c in self._commits() if c["id"] == commit_id for t in c["tokens"])

    def committed_steps(self, pstate, vnode, commit_id):
        """See the protocol."""
        logs = [log for c in self._commits() if c["id"] == commit_id for log in c["logs"]]
        return tuple(sorted({log[0] for log in logs if vnode in log[2]}))

    def rebuild(self, pstate, vnode):
        """See the protocol."""
        known = [each for each in self.world.checkpoints if each[0] <= self.commit_id]
        base, ref = (known[-1][0], FileRef(*known[-1][1])) if known else (0, None)
        logs = tuple(
            (commit["id"], FileRef(*log[1]))
            for commit in self._commits()
            for log in commit["logs"]
            if commit["id"] > base and vnode in log[2]
        )
        return Rebuild(ref, base, logs)

    def open_file(self, ref):
        """See the protocol."""
        return self.world.root / ref.name


class World:
    """A root folder with change files and commits, and a local folder with vnode stores."""

    def __init__(self, folder, *, map_bytes=1 << 24, open_max=None, kept=2, vnodes=(0,)):
        """Begin with nothing, or with what another process saved there."""
        self.folder = Path(folder)
        self.root = self.folder / "root"
        self.root.mkdir(parents=True, exist_ok=True)
        self.files = LocalStore(self.root)
        self.vnodes = vnodes
        self.commits = []
        self.branches = []
        self.checkpoints = []
        self.models = {0: {vnode: {} for vnode in vnodes}}
        self.environments = EnvironmentCache(open_max, map_bytes)
        self.kept = kept
        self.stores = VnodeStores(self.folder / "local", environments=self.environments)
        self.tokens = 0
        saved = self.folder / "log.json"
        if saved.exists():
            self.commits, self.checkpoints = json.loads(saved.read_text())

    def save(self):
        """Let other processes read the log."""
        (self.folder / "log.json").write_text(json.dumps([self.commits, self.checkpoints]))

    @property
    def last(self):
        """The last commit's id."""
        return self.commits[-1]["id"] if self.commits else 0

    def history(self, commit_id=None):
        """The log as of a commit."""
        return FakeHistory(self, self.last if commit_id is None else commit_id)

    def view(self, commit_id=None):
        """The external view at a commit."""
        return PStateView(self.stores, PSTATE, max(self.vnodes) + 1, self.history(commit_id))

    def attempt(self, *, version=1, step=0, epoch=1, id=None, token=None):  # noqa: A002
        """A task run of the next microbatch."""
        self.tokens += 1
        name = token or f"run-{os.getpid()}-{self.tokens}"
        made = Attempt(epoch, self.last + 1 if id is None else id, version, step, name)
        return msgspec.structs.replace(made, timeline=len(self.branches))

    def roll_back(self, commit_id):
        """Abandon every later commit."""
        self.branches.append(commit_id)
        self.commits = [each for each in self.commits if each["id"] <= commit_id]
        self.checkpoints = [each for each in self.checkpoints if each[0] <= commit_id]
        self.models = {number: m for number, m in self.models.items() if number <= commit_id}

    def open(self, attempt, vnode=0, priors=()):
        """A session."""
        return self.stores.open(PSTATE, vnode, attempt, self.history(attempt.id - 1), priors)

    def run(self, changes, *, attempt=None, priors=(), scribble=False, **options):
        """Run one task: changes are {vnode: {key: value or None}}.

        With ``scribble`` it writes something else first, in the same session.
        """
        attempt = attempt or self.attempt(**options)
        parts = []
        for vnode, wanted in sorted(changes.items()):
            with self.open(attempt, vnode, priors) as session:
                keys = sorted(wanted)
                if scribble:
                    session.put_many(keys, [b"scribble"] * len(keys))
                    for key in keys[::2]:
                        session.delete(key)
                session.put_many(keys, [wanted[key] for key in keys], session.get_many(keys))
                done = session.commit()
                if done.keys:
                    parts.append((vnode, done.keys, done.values))
        log = None
        if parts:
            ref = write_change_file(self.files, f"logs/{attempt.token}.arrow", parts)
            fields = [ref.name, ref.size, ref.crc, ref.rows]
            log = [attempt.step, fields, [vnode for vnode, _, _ in parts]]
        return Run(attempt.token, attempt.step, log)

    def commit(self, *runs):
        """Make the next commit of these winning runs, and the model of it."""
        commit_id = self.last + 1
        logs = [run.log for run in sorted(runs, key=lambda run: run.step) if run.log]
        self.commits.append({"id": commit_id, "tokens": [r.token for r in runs], "logs": logs})
        model = {vnode: dict(content) for vnode, content in self.models[commit_id - 1].items()}
        history = self.history()
        from atoll.pstate.store.changefile import read_vnode

        for log in logs:
            for vnode in log[2]:
                for key, value in zip(*read_vnode(history, FileRef(*log[1]), vnode), strict=True):
                    if value is None:
                        model[vnode].pop(key, None)
                    else:
                        model[vnode][key] = value
        self.models[commit_id] = model
        return commit_id

    def prior(self, *runs):
        """What these runs of one step did, for the next step."""
        tokens = frozenset(run.token for run in runs)
        return Prior(runs[0].step, tokens, tuple(FileRef(*r.log[1]) for r in runs if r.log))

    def checkpoint(self):
        """Write the last commit's whole state to a checkpoint."""
        model = self.models[self.last]
        parts = [(v, sorted(model[v]), [model[v][k] for k in sorted(model[v])]) for v in model]
        self.tokens += 1
        ref = write_change_file(self.files, f"checkpoints/{self.tokens}.arrow", parts)
        self.checkpoints.append([self.last, [ref.name, ref.size, ref.crc, ref.rows]])

    def lose(self, vnode=0):
        """Lose a local store."""
        self.stores.discard(PSTATE, vnode)

    def check(self, commit_id, keys=()):
        """The view at a commit is the model, by every way of reading."""
        view = self.view(commit_id)
        for vnode, model in self.models[commit_id].items():
            wanted = sorted(model.items())
            assert list(view.scan(vnode)) == wanted
            assert list(view.scan(vnode, reverse=True)) == wanted[::-1]
            for key in {*keys, *model}:
                assert view.get(vnode, key) == model.get(key)
            both = sorted({*keys, *model})
            assert view.get_many(vnode, both) == [model.get(key) for key in both]


@pytest.fixture
def world(tmp_path):
    """A world with one vnode."""
    made = World(tmp_path)
    yield made
    made.environments.close()


@pytest.fixture
def new_world(tmp_path):
    """Makes worlds, each in a folder of its own unless told."""
    made = []

    def make(folder=None, **options):
        made.append(World(folder or tmp_path / f"world-{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.environments.close()
