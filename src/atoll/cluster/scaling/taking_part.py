"""Taking part in what other processes try: a module that runs here tries it too, and says how.

See :mod:`atoll.cluster.scaling.trials` for what a trial is.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgspec

from atoll.cluster.scaling.revisions import Revisions
from atoll.cluster.scaling.scaling import Scaling
from atoll.cluster.scaling.trials import GRACE_SECONDS, Answer, Trial, Trials
from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.placement.info import ClusterInfo
from atoll.placement.registry import Registry, view

_log = get_logger("atoll.cluster")


class TakingPart:
    """Answers each trial once, for every module of it that runs here.

    Args:
        revisions: Of the root's cluster.
        trials: Of the root.
    """

    def __init__(self, revisions: Revisions, trials: Trials) -> None:
        """No trial is answered yet."""
        self._revisions = revisions
        self._trials = trials
        self._answered = 0

    def look(self, running: Mapping[str, Scaling]) -> None:
        """Take part in the trial that is open, if it is new here; in threads of its own."""
        trial = self._trials.open()
        if trial is None or trial.number <= self._answered:
            return
        self._answered = trial.number
        for name, each in running.items():
            if name in trial.after:
                taking = threading.Thread(target=self._take_part, args=(trial, each))
                taking.name, taking.daemon = "atoll-trial", True
                taking.start()

    def _take_part(self, trial: Trial, module: Scaling) -> None:
        """Try what another process asks of a module that runs here."""
        name = module.module
        try:
            with module.held(trial.timeout_seconds):
                module.check()
                registry = self._revisions.latest()
                if registry.trial >= trial.number:
                    return
                answer = self._tried_for(trial, module, registry)
                self._trials.answer(trial, name, answer)
                wait = trial.timeout_seconds + GRACE_SECONDS
                self._trials.await_decision(trial, wait)
                after = self._revisions.latest()
                if answer.topology is None and after.parts.get(name) == trial.after[name]:
                    module.took(after)
                elif answer.topology is None:
                    module.leave(_tried_view(registry, trial, name), trial.timeout_seconds)
        except AtollError as error:
            _log.warning("a trial was not taken part in", module=name, error=str(error))

    def _tried_for(self, trial: Trial, module: Scaling, registry: Registry) -> Answer:
        name = module.module
        if registry.parts.get(name) != trial.before[name]:
            return Answer("", f"module {name!r} was changed meanwhile", "look again, then ask")
        refused = module.try_on(_tried_view(registry, trial, name), trial.timeout_seconds)
        if not refused:
            return Answer()
        topology, error = min(refused.items())
        return Answer(topology, error.message, error.hint)


def _tried_view(registry: Registry, trial: Trial, module: str) -> ClusterInfo:
    parts = {**registry.parts, module: trial.after[module]}
    changed = msgspec.structs.replace(registry, parts=parts, revision=trial.revision)
    return view(changed, module)
