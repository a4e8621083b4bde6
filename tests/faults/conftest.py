"""What the fault suites share: a zygote, and a run that nobody disturbs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos import workers
from harness import Zygote, zygote
from trial import MADE, MODULES, expected_after, scratch

from atoll.depot.append import stream as stream_append


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a file's tests made in memory is gone when they are done; a failed one keeps its own."""
    MADE.clear()
    yield
    left = [folder for folder in MADE if folder.exists()]
    assert not left or request.session.testsfailed, f"these folders were left behind: {left}"


@pytest.fixture(scope="session")
def children():
    """A zygote that has imported the scenario."""
    with zygote(*MODULES) as made:
        yield made


@pytest.fixture(scope="session")
def undisturbed(children: Zygote):
    """The final state of a run of so many rounds that nobody disturbed, checked."""
    known = {}

    def run(rounds: int):
        if rounds not in known:
            root = scratch()
            ended = children.run("scenario:live", root=str(root), rounds=rounds)
            ended.expect(killed=False, about="an undisturbed run")
            known[rounds] = json.loads(ended.said("final")[0])
            assert known[rounds] == expected_after(rounds)
            shutil.rmtree(root)
        return known[rounds]

    return run


@pytest.fixture
def small_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a stream of a hundred records be too large for memory."""
    monkeypatch.setattr(stream_append, "MEMORY_BYTES_MAX", 2048)
    monkeypatch.setattr(stream_append, "_CHUNK_BYTES", 1024)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A fresh one, in memory where there is such a place."""
    made = scratch()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def six(folder) -> Iterator[Any]:
    """Three workers of two units."""
    with workers(folder) as cluster:
        yield cluster
