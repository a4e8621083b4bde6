"""The power is cut at any moment, and what was not made durable survives in part, or not at all.

One run is recorded, with every acknowledgement and every published commit in its place among the
calls. From the record the disks are built that a power cut at each point may leave
(``images.py``); on each the real code recovers, and everything promised before the cut must be
there. The local stores are gone in every image: after a boot they are not trusted.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import replay, report, seed, volume
from images import Image, Images
from interpose import Interposer
from storage_life import Ledger, Life

from atoll.errors import AtollError

_MICROBATCHES = 8
_RUNS = volume(1, 10)
_IMAGES_EACH = volume(300, 5000)
_FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


pytestmark = pytest.mark.usefixtures("small_streams")


@pytest.fixture
def fast() -> Iterator[Path]:
    """A folder in memory where there is one: an fsync costs nothing there."""
    with tempfile.TemporaryDirectory(dir=_FAST, prefix="atoll-images-") as folder:
        yield Path(folder)


def record(root: Path, start: int, *, lying: bool = False) -> Images:
    """Run the miniature over three lives, and keep what it did to the disk."""
    root.mkdir(parents=True)
    random_ = random.Random(start)
    append = 0
    with Interposer(root) as disk:
        disk.record()
        for life_number in range(3):
            life = Life(root, disk.mark)
            disk.lying = lying
            for number in range(_MICROBATCHES):
                append += 1
                life.append(append, random_.randrange(1, 12))
                if number % 4 == 1:
                    life.append_together(range(append + 1, append + 4), 3)
                    append += 3
                if number % 4 == 2:
                    append += 1
                    life.append(append, 120, streamed=True)
                for _ in range(random_.choice([1, 1, 2])):
                    life.microbatch()
            disk.lying = False
            if life_number < 2:
                life.close()
        trace = list(disk.trace)
        life.close()
    return Images(trace)


def recover_and_check(images: Images, image: Image, cut: int, root: Path) -> None:
    """The image, recovered: all that was promised is there, and work goes on."""
    ledger = Ledger(*(images.marks(cut, what) for what in ("begun", "acked", "published")))
    life = Life(root, ledger.mark)
    try:
        ledger.check(life)
        life.append(1_000_000, 5)
        life.microbatch()
        life.microbatch()  # the one before may have had its plan already
        ledger.check(life)
        assert life.last.ends()["d"] == list(life.depot.end_offsets())
    finally:
        life.close()


def sample(images: Images, start: int, wanted: int) -> Iterator[tuple[int, Image]]:
    """About so many images, spread evenly over all cut points."""
    random_ = random.Random(start)
    cuts = len(images.trace) + 1
    low, rest = divmod(wanted / cuts, 1)
    for cut in range(cuts):
        found = images.choices(cut, random_, extra=max(4, int(low)))
        count = min(int(low) + (random_.random() < rest), len(found))
        for story, survivors in random_.sample(found, count):
            yield cut, images.image(cut, story, survivors)


def run_images(images: Images, wanted: int, folder: Path, seen: set[bytes]) -> list[str]:
    """Recover so many images that were not seen before; the first violation ends it."""
    upto = len(seen) + wanted
    for round_ in range(50):
        for cut, image in sample(images, round_ * 1_000_003 + seed(), wanted):
            digest = image.digest()
            if digest in seen:
                continue
            seen.add(digest)
            root = folder / f"image-{len(seen)}"
            image.write(root)
            try:
                recover_and_check(images, image, cut, root)
            except (AssertionError, AtollError, LookupError) as error:
                return [f"{image.story}: {type(error).__name__}: {error}"]
            shutil.rmtree(root)
            if len(seen) == upto:
                return []
    raise AssertionError(f"only {len(seen)} images are distinct")


def test_storage_survives_power_loss(fast: Path) -> None:
    """Every acknowledged append and every published commit survives, whatever else is lost."""
    seen: set[bytes] = set()
    started = time.monotonic()
    violations: list[str] = []
    for number in range(_RUNS):
        images = record(fast / f"run-{number}", seed() + number)
        links = [each for each in images.trace if getattr(each, "kind", "") == "link"]
        assert len(links) > 50, "the run did too little"
        violations += run_images(images, _IMAGES_EACH, fast, seen)
        assert not violations, f"{violations[0]}\n{replay('test_power_loss.py')}"
    report("power loss, storage", len(seen), len(violations), started)


def test_a_lying_disk_is_found(fast: Path) -> None:
    """The same images of a disk whose fsync does nothing show losses: the check can fail."""
    images = record(fast / "run", seed(), lying=True)
    assert run_images(images, 150, fast, set()), "a lying disk, and nothing was missed"


def test_a_lying_disk_serves_nothing_wrong(fast: Path) -> None:
    """Whatever a lying disk loses: damage is told, or what is left is consistent in itself."""
    images = record(fast / "run", seed(), lying=True)
    began = time.monotonic()
    told = fine = 0
    for cut, image in sample(images, seed(), volume(90, 2000)):
        root = fast / f"lied-{told + fine}"
        image.write(root)
        ledger = Ledger(*(images.marks(cut, what) for what in ("begun", "acked", "published")))
        try:
            life = Life(root)
        except AtollError as error:
            assert error.code == "E-DAMAGE", image.story  # noqa: PT017  # one of two outcomes
            told += 1
            continue
        try:
            ledger.check(life, lossy=True)
            fine += 1
        except AtollError as error:
            assert error.code == "E-DAMAGE", image.story  # noqa: PT017  # one of two outcomes
            told += 1
        finally:
            life.close()
            shutil.rmtree(root)
    assert told
    assert fine
    report("lying fsync", told + fine, 0, began, told=told)
