"""The cluster of a root, over all its modules: what it is, and changing it.

A change may concern modules that run here, in other processes, and nowhere. Those that run here
try it under the hands of this class; others are asked by a trial
(:mod:`atoll.cluster.scaling.trials`); those that run nowhere take it when they start. When all
have agreed the next revision stands, for all of them at once.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from atoll.cluster.description import described_registry
from atoll.cluster.scaling.leaving import await_empty
from atoll.cluster.scaling.resting import RestingCluster
from atoll.cluster.scaling.rests import is_at_rest
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.cluster.scaling.scaling import Scaling, not_taken, overtaken
from atoll.cluster.scaling.sizes import Sizes
from atoll.cluster.scaling.taking_part import TakingPart
from atoll.cluster.scaling.trials import GRACE_SECONDS, LOOK_SECONDS, Trial, Trials
from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.placement.info import ClusterInfo
from atoll.placement.policies.policy import parse_policy
from atoll.placement.registry import (
    Registry,
    cordon,
    full_name,
    leave,
    remove,
    uncordon,
    view,
    whole,
)
from atoll.placement.reschedule.across import Across, plan_across, policy_across
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import ReschedulePlan
from atoll.storage.glances import look_seconds

_log = get_logger("atoll.cluster")


class RootCluster:
    """Workers, and what runs where, of all modules of a root. Safe from any thread.

    Args:
        revisions: Of the root's cluster.
        running: The modules that run in this process, as they are now.
        stopped: Those that should run in this process and do not.
        sizes: For each root fragment of a module's view the bytes of its vnodes; of a module that
            does not run here.
        now_ms: The wall clock.
        units: Gives this process so many parallel units.
    """

    def __init__(  # injected once, by the cluster
        self,
        revisions: Revisions,
        running: Callable[[], Mapping[str, Scaling]],
        stopped: Callable[[], Mapping[str, RestingCluster]],
        sizes: Callable[[str, ClusterInfo], Sizes],
        now_ms: Callable[[], int],
        units: Callable[[int], None],
    ) -> None:
        """Nothing changes yet."""
        self._units = units
        self._revisions = revisions
        self._running = running
        self._stopped = stopped
        self._sizes = sizes
        self._now_ms = now_ms
        self._trials = Trials(revisions, now_ms)
        self._taking_part = TakingPart(revisions, self._trials)
        self._changing = threading.Lock()
        self._followed = 0

    def info(self) -> ClusterInfo:
        """The revision that stands; a topology's name is ``module/topology``."""
        return whole(self._revisions.latest())

    def describe(self) -> dict[str, Any]:
        """Workers, fragments of all modules, and one matrix of them, JSON-able."""
        registry = self._revisions.latest()
        return described_registry(registry, self._all_sizes(registry))

    def reschedule(
        self,
        changes: Mapping[int, UnitChange],
        *,
        revision: int,
        resolve: bool = False,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ReschedulePlan:
        """Change which units run some fragments, of whichever modules: all of it, or nothing.

        Returns when the first microbatch on the new mapping has committed in every topology that
        it concerns; their policy is ``custom`` from then on.

        Args:
            changes: By fragment.
            revision: Of the info that the changes were made from.
            resolve: Whether a change of a fragment that follows another is meant for its root.
            dry_run: Only say what would be done.
            timeout_seconds: How long to wait for these microbatches.

        Raises:
            RescheduleError: When a check refuses it, a first microbatch failed or took too long,
                or a process does not answer; the old mapping stands then.
            FencedError: When another life of the coordinator owns a module that runs here.
        """
        request = Request(dict(changes), revision, resolve)

        def asked(registry: Registry) -> Across:
            starting = [name for each in self._running().values() for name in each.starting()]
            return plan_across(registry, request, self._all_sizes(registry), starting=starting)

        return self._asked(asked, "reschedule", timeout_seconds, dry_run=dry_run)

    def set_parallelism(
        self,
        module: str,
        topology: str,
        policy: str,
        *,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ReschedulePlan:
        """Let a policy decide the parallelism of a topology of any module.

        Raises:
            UsageError: When there is no such policy.
            NotFoundError: When there is no such topology.
            RescheduleError: When it did not take place; the old mapping stands then.
            FencedError: When another life of the coordinator owns a module that runs here.
        """
        parsed = str(parse_policy(policy))

        def asked(registry: Registry) -> Across:
            sizes = self._all_sizes(registry)
            return policy_across(registry, module, topology, parsed, sizes)

        why = f"parallelism of {module}/{topology}"
        return self._asked(asked, why, timeout_seconds, dry_run=dry_run)

    def set_units(self, units: int) -> ClusterInfo:
        """Give this process so many parallel units from now on, until it ends.

        Raises:
            UsageError: When there cannot be so many, or the process runs on a Spark cluster, whose
                workers say theirs.
            FencedError: When another process runs a module of this one by now.
        """
        self._units(units)
        return self.info()

    def cordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Give these workers no new actors, of any module; those that they have stay.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda registry: cordon(registry, workers), "cordon")

    def uncordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Let these workers get new actors again.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda registry: uncordon(registry, workers), "uncordon")

    def remove(self, workers: Iterable[int]) -> ClusterInfo:
        """Forget workers that run nothing.

        Raises:
            NotFoundError: When one of them is unknown.
            RescheduleError: When actors of some module run there; the context lists them.
        """
        return self._changed(lambda registry: remove(registry, workers), "remove")

    def leave(
        self, workers: Iterable[int], *, wait: bool = False, timeout_seconds: float = 60.0
    ) -> ClusterInfo:
        """Let these workers end soon: what they run moves to others, and nothing new comes.

        Each is forgotten when it runs nothing any more and no process sees it; until then
        :meth:`uncordon` takes it back.

        Args:
            workers: Their ids.
            wait: Whether to return only when they run nothing.
            timeout_seconds: How long to wait for that.

        Raises:
            NotFoundError: When one of them is unknown.
            WaitTimeoutError: When they still run something then; they go on leaving.
        """
        ids = tuple(workers)
        info = self._changed(lambda registry: leave(registry, ids), "leave")
        if not wait:
            return info
        await_empty(self._revisions, ids, timeout_seconds)
        return self.info()

    def look_seconds(self, usual: float) -> float:
        """How long to wait between two looks: longer where each is a request."""
        return look_seconds(self._revisions.store, usual)

    def look(self) -> None:
        """Take over what other processes changed, and take part in what they try.

        Raises:
            AtollError: When it cannot be; the next look tries again.
        """
        self._taking_part.look(self._running())
        revision = self._revisions.latest().revision
        if revision != self._followed:
            self._follow()
            self._followed = revision

    # Inside ---------------------------------------------------------------------------------------

    def _changed(self, change: Callable[[Registry], Registry], why: str) -> ClusterInfo:
        said = self._said(why)
        stood = self._revisions.change(change, said)
        self._follow()
        return whole(stood)

    def _said(self, why: str) -> Callable[[Registry], Revision]:
        return lambda registry: Revision(registry, "", 0, self._now_ms(), why)

    def _follow(self) -> None:
        failed: AtollError | None = None
        for each in self._running().values():
            try:
                each.follow()
            except AtollError as error:  # the others follow all the same
                failed = error
        if failed is not None:
            raise failed

    def _all_sizes(self, registry: Registry) -> Sizes:
        running = self._running()
        sizes: dict[int, Any] = {}
        for module in registry.parts:
            info = view(registry, module)
            here = running.get(module)
            sizes |= self._sizes(module, info) if here is None else here.sizes(info)
        return sizes

    def _asked(
        self,
        asked: Callable[[Registry], Across],
        why: str,
        timeout_seconds: float,
        *,
        dry_run: bool,
    ) -> ReschedulePlan:
        if dry_run:
            return asked(self._revisions.latest()).plan
        until = time.monotonic() + timeout_seconds
        with self._changing:
            while True:
                self._clear_trial(until)
                planned = asked(self._revisions.latest())
                if planned.after == planned.before:
                    return planned.plan
                with self._held(planned.modules, timeout_seconds):
                    again = asked(self._revisions.latest())
                    done = again.modules == planned.modules
                    stood = self._tried(again, why, timeout_seconds) if done else None
                if stood is not None:
                    _log.info("cluster changed", revision=stood.revision, why=why)
                    return msgspec.structs.replace(again.plan, info=whole(stood))

    @contextmanager
    def _held(self, modules: Iterable[str], timeout_seconds: float) -> Iterator[None]:
        """Keep other changes away from those modules that run here."""
        running = self._running()
        with ExitStack() as held:
            for name in sorted(modules):
                if name in running:
                    held.enter_context(running[name].held(timeout_seconds))
            yield

    def _clear_trial(self, until: float) -> None:
        """Wait until no other trial is under way; give up one that nobody decides."""
        trial = self._trials.open()
        if trial is not None:
            left = max(until - time.monotonic(), trial.timeout_seconds) + GRACE_SECONDS
            self._trials.await_decision(trial, left)

    def _tried(self, planned: Across, why: str, timeout_seconds: float) -> Registry | None:
        """Try it everywhere and let it stand; None when another trial came first."""
        running = self._running()
        here = {name: running[name] for name in planned.modules if name in running}
        resting = {name for name in planned.modules if self._rests(name)}
        elsewhere = [name for name in planned.modules if name not in resting | here.keys()]
        for each in here.values():
            each.check()
        trial = None
        if elsewhere:
            trial = self._trial(planned, elsewhere, timeout_seconds)
            if not self._trials.begin(planned.before, trial):
                return None
        with ExitStack() as undo:
            if trial is not None:
                undo.callback(self._trials.give_up, trial, "not all agreed")
            refused = self._try_on(planned, here, trial, timeout_seconds, undo)
            if refused:
                raise not_taken(refused)
            for each in here.values():
                each.check()
            stood = self._stand(planned, trial, why)
            undo.pop_all()
        for name in planned.modules:
            if name in here:
                here[name].took(stood)
            elif name in self._stopped():
                self._stopped()[name].took(view(stood, name))
        return stood

    def _stand(self, planned: Across, trial: Trial | None, why: str) -> Registry:
        """Make the revision; with it the trial is decided."""
        after = planned.after
        if trial is not None:
            after = msgspec.structs.replace(after, trial=trial.number)
        made = Revision(after, "", 0, self._now_ms(), why)
        stood = self._revisions.stand(planned.before, made, planned.modules)
        if stood is None:
            raise overtaken()
        return stood

    def _rests(self, module: str) -> bool:
        return module in self._stopped() or is_at_rest(self._revisions.store, module)

    def _trial(self, planned: Across, modules: list[str], timeout_seconds: float) -> Trial:
        before, after = planned.before, planned.after
        return Trial(
            before.trial + 1,
            {name: before.parts[name] for name in modules},
            {name: after.parts[name] for name in modules},
            after.revision,
            timeout_seconds,
            _me(),
        )

    def _try_on(
        self,
        planned: Across,
        here: Mapping[str, Scaling],
        trial: Trial | None,
        timeout_seconds: float,
        undo: ExitStack,
    ) -> dict[str, AtollError]:
        """Let all modules try it at once; the topologies that stay where they were, and why."""
        until = time.monotonic() + timeout_seconds + LOOK_SECONDS
        views = {name: view(planned.after, name) for name in here}

        def one(name: str) -> dict[str, AtollError]:
            refused = here[name].try_on(views[name], timeout_seconds)
            if not refused:
                undo.callback(here[name].leave, views[name], timeout_seconds)
            return {full_name(name, topology): error for topology, error in refused.items()}

        with ThreadPoolExecutor(len(here) + 1) as threads:
            tried = threads.map(one, here)
            refused = {} if trial is None else self._trials.answers(trial, until)
            for each in tried:
                refused |= each
        return refused


def _me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
