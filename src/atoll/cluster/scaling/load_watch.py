"""Watches the load of topologies whose policy is ``load``, and lets them grow and shrink.

Topologies that could not follow a change of the workers are looked at on the way.

What is decided is :mod:`atoll.placement.policies.load`'s; here are only the clock and the thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import msgspec

from atoll.cluster.scaling.scaling import Scaling
from atoll.depot.logs.followed import ends_seen
from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.microbatch.stepping import Stepper
from atoll.placement.info import ClusterInfo
from atoll.placement.policies.load import LoadOptions, LoadState, Sample, decide
from atoll.placement.policies.policy import Load, parse_policy

_log = get_logger("atoll.cluster")

INTERVAL_SECONDS = 2.0


class LoadWatch:
    """Takes a sample of every topology now and then.

    Args:
        scaling: What grows and shrinks.
        loops: The module's topologies, by name.
        options: When to; the bounds are those of each topology's policy.
        interval_seconds: Between two samples.
    """

    def __init__(
        self,
        scaling: Scaling,
        loops: Mapping[str, Stepper],
        options: LoadOptions = LoadOptions(),  # noqa: B008  # immutable
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        """Nothing is watched before :meth:`start`."""
        self._scaling = scaling
        self._loops = loops
        self._options = options
        self._interval_seconds = interval_seconds
        self._states: dict[str, LoadState] = {}
        self._seen: dict[str, tuple[float, float, int]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atoll-load-watch", daemon=True)

    def start(self) -> None:
        """Begin; call once."""
        self._thread.start()

    def close(self) -> None:
        """Take no further sample."""
        self._stopping.set()

    def look(self, now_seconds: float) -> None:
        """Take one sample of each topology, and do what it leads to.

        Args:
            now_seconds: On a clock that never goes back.
        """
        info = self._scaling.settle()
        for topology, loop in self._loops.items():
            if topology not in info.policies:
                continue  # its module is removed at this moment
            policy = parse_policy(info.policies[topology], custom_allowed=True)
            if isinstance(policy, Load):
                sample = self._sample(topology, loop, now_seconds)
                if sample is not None:
                    self._follow(info, topology, policy, sample)

    def _follow(self, info: ClusterInfo, topology: str, policy: Load, sample: Sample) -> None:
        options = msgspec.structs.replace(self._options, least=policy.least, most=policy.most)
        current = max(len(f.units) for f in info.roots(topology) if f.kind != "singleton")
        state = self._states.get(topology, LoadState())
        available = len(info.staying_units())
        self._states[topology], wanted = decide(state, sample, current, available, options)
        if wanted is not None:
            self._scaling.resize(topology, wanted)

    def _sample(self, topology: str, loop: Stepper, now_seconds: float) -> Sample | None:
        """What the topology did since the last one; None at the first."""
        worked, processed = loop.status.worked_seconds(), loop.published.processed
        before = self._seen.get(topology)
        self._seen[topology] = (now_seconds, worked, processed)
        if before is None or now_seconds <= before[0]:
            return None
        seconds = now_seconds - before[0]
        done = loop.published.ends()
        lag = sum(
            max(0, sum(ends_seen(depot)) - sum(done.get(name, ())))
            for name, depot in loop.depots.items()
        )
        busy = min(1.0, (worked - before[1]) / seconds)
        return Sample(now_seconds, busy, lag, max(0, processed - before[2]) / seconds)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            try:
                self.look(time.monotonic())
            except AtollError as error:  # the next sample tries again
                _log.warning("not scaled by load", error=str(error))
