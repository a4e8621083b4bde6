"""One root that lives through several deaths and must end as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oracle
from checker import Told
from harness import CAP_SECONDS, Zygote
from scenario import PER_ROUND

__all__ = ["MADE", "MODULES", "Trial", "expected_after", "scratch"]

MODULES = ("scenario", "checker", "deaths")
"""What a zygote must have imported."""

MADE: list[Path] = []
"""Every folder of :func:`scratch`, until somebody has looked whether it is gone."""

Death = tuple[str, dict[str, Any]]
"""A function of ``deaths`` and its arguments."""


def scratch() -> Path:
    """A fresh folder, in memory where there is such a place: a SIGKILL loses nothing there."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    MADE.append(Path(tempfile.mkdtemp(prefix="atoll-faults-", dir=place)))
    return MADE[-1]


def expected_after(rounds: int) -> dict[str, Any]:
    """The final state by the oracle."""
    ends = {depot: oracle.ends_of(depot, count * rounds) for depot, count in PER_ROUND.items()}
    return {**oracle.bank(ends), **oracle.watch(oracle.alerts_of(ends))}


class Trial:
    """Kills, checks, lets a last life finish, checks again.

    Args:
        zygote: Has imported :data:`MODULES`.
        rounds: How long a whole life is.
        undisturbed: The final state of a run that nobody disturbed.
    """

    def __init__(self, zygote: Zygote, rounds: int, undisturbed: dict[str, Any]) -> None:
        self.zygote = zygote
        self.rounds = rounds
        self.undisturbed = undisturbed

    def survives(
        self,
        deaths: Sequence[Death],
        *,
        lose_local: bool,
        about: str,
        must_die: int | None = None,
    ) -> list[list[Any]]:
        """Die of each in turn, then finish.

        Args:
            deaths: What the lives die of.
            lose_local: Whether the local folder is deleted after each death.
            about: What to say in a failure: how to run this again.
            must_die: How many of the first deaths must really happen; all by default. A later
                one may turn out not to be reached any more: then that life has finished.

        Returns:
            What each life said that it was dying of.

        Raises:
            AssertionError: When an invariant does not hold, or a death did not happen.
        """
        root = scratch()
        told = Told()
        died: list[list[Any]] = []
        try:
            for index, (function, arguments) in enumerate(deaths):
                ended = self.zygote.run(
                    f"deaths:{function}", root=str(root), rounds=self.rounds, **arguments
                )
                told.hear(ended.output)
                if must_die is None or index < must_die or ended.status != 0:
                    ended.expect(killed=True, about=f"{about}: death {index + 1}")
                    died += map(json.loads, ended.said("dying"))
                    assert len(died) == index + 1, f"{about}: it died before it was told to"
                if index + 1 == len(deaths):  # the state between two deaths has its own trials
                    self._check(root, told, about, finished=False)
                if lose_local:
                    shutil.rmtree(root / "local", ignore_errors=True)
            self._finish(root, told, about)
        except AssertionError as error:
            raise AssertionError(f"{about}\n{error}\nkept: {root}") from None
        shutil.rmtree(root)
        return died

    def _check(self, root: Path, told: Told, about: str, *, finished: bool) -> None:
        ended = self.zygote.run(
            "checker:check", root=str(root), told=told.as_json(), finished=finished
        )
        ended.expect(killed=False, about=f"{about}: the checker")
        told.hear(ended.output)

    def _finish(self, root: Path, told: Told, about: str) -> None:
        ended = self.zygote.run("scenario:live", CAP_SECONDS, root=str(root), rounds=self.rounds)
        told.hear(ended.expect(killed=False, about=f"{about}: the last life").output)
        final, again = (json.loads(ended.said(word)[0]) for word in ("final", "again"))
        assert final == expected_after(self.rounds), f"I3: not what the oracle says: {final}"
        assert final == self.undisturbed, f"I3: not what an undisturbed run gives: {final}"
        assert again == final, f"I8: recovering once more changed it: {again}"
        assert told.acked == {name: n * self.rounds for name, n in PER_ROUND.items()}, told
        self._check(root, told, about, finished=True)
