"""The power is cut under a whole cluster: every layer recovers from what the disk still holds.

As ``test_power_loss.py``, with two topologies, appends between them, and state; recovered and
checked by the same processes that check the kills.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import scenario
from checker import told_by
from harness import replay, report, seed, volume, zygote
from images import Images
from interpose import Interposer
from trial import MODULES, Trial, expected_after, scratch

from atoll.microbatch import events as ev

ROUNDS = 3


def record(root: Path, monkeypatch: pytest.MonkeyPatch) -> Images:
    """A run in this process; what it says stands in the trace where it said it.

    So does every commit when readers are shown it.
    """
    with Interposer(root) as disk:

        def observe(step: Any, commit_id: int) -> None:
            if step == ev.Step.PUBLISH:
                topology = threading.current_thread().name.rsplit("-", 1)[-1]
                disk.mark("committed", {topology: commit_id})

        disk.record()
        monkeypatch.setattr(scenario, "say", disk.mark)
        with scenario.running(root, observe) as app:
            scenario.drive(app, ROUNDS)
            trace = list(disk.trace)
    return Images(trace)


def said(images: Images, cut: int) -> str:
    """What had been said before the cut, as a life prints it."""
    marks = (each for each in images.trace[:cut] if hasattr(each, "what"))
    return "\n".join(f"{each.what} {json.dumps(each.value)}" for each in marks)


def test_a_cluster_survives_power_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """On every image the invariants hold, and a last life ends as if nothing had happened.

    What had been acknowledged, and the last commit shown to readers, must be on the image itself.
    """
    began = time.monotonic()
    folder = scratch()
    root = folder / "run"
    root.mkdir()
    images = record(root, monkeypatch)
    whole = told_by(said(images, len(images.trace)))
    assert sum(whole.acked.values()) == 10 * ROUNDS
    assert min(whole.committed.values()) >= ROUNDS - 1, whole
    published = 0
    random_ = random.Random(seed())
    wanted = volume(10, 500)
    done: set[bytes] = set()
    with zygote(*MODULES) as children:
        trial = Trial(children, ROUNDS, expected_after(ROUNDS))
        while len(done) < wanted:
            cut = random_.randrange(len(images.trace) + 1)
            story, survivors = random_.choice(images.choices(cut, random_, extra=4))
            image = images.image(cut, story, survivors)
            if image.digest() in done:
                continue
            done.add(image.digest())
            place = folder / "image"
            image.write(place)
            about = f"{image.story}\n{replay('test_system_power_loss.py')}"
            told = told_by(said(images, cut))
            published += any(told.committed.values())
            trial._check(place, told, about, finished=False)
            trial._finish(place, told, about)
            shutil.rmtree(place)
    shutil.rmtree(folder)
    report("power loss, cluster", len(done), 0, began, published=published)
    assert published > wanted // 3, "hardly any commit was there to be lost"
