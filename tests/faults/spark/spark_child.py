"""A process of the scenario: appends, runs, and tells what it does, line by line.

Arguments: the root, and which records: ``forever`` for all from where an earlier life stopped,
``more <count>`` for so many more, or ``same <file>`` for the numbers in a file. It appends in
small batches as fast as they are processed, and ends when everything is processed. Before and
after each append it writes a line to ``acks.log`` beside the root, so that who killed it knows
what was acknowledged. Numbers are never used twice: what an earlier life tried last is not tried
again.

Lines on stdout: ``begun``, ``<step> <microbatch>`` when a step has ended, ``fenced <by whom>``,
``refused <why>``, ``finished <records>``. A process that was fenced ends with exit code 3.

Environment: ATOLL_ENGINE=inline runs without Spark. ATOLL_LINGER_MS stands still for a random time
up to that after each step, so that the short steps can be hit. ATOLL_STOP=<place> stops the whole
process once by SIGSTOP: at the beginning of the step of that name, ``inside`` a user's function
while the stores are open, or in an ``append`` before its fsync. ATOLL_FIRST and ATOLL_ACKS give
two processes records and books of their own. ATOLL_STAND goes on after all records until a
microbatch ran on standing tasks, and tells by what its jobs ran: ``ways <job 0> <job 1>``.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from spark_scenario import DEPOT, PARTITIONS, RECORDS_MAX, TOPOLOGY, build, record_of

from atoll.cluster.local import LocalCluster
from atoll.depot.segments import segment_file
from atoll.errors import AtollError

BATCH = 7
AHEAD = 2 * PARTITIONS * RECORDS_MAX
"""How many records are kept waiting, so that every microbatch finds its fill."""

STOP_AFTER_MICROBATCH = 3
FENCED = 3
TELL_SECONDS_MAX = 30.0
STAND_SECONDS_MAX = 60.0
ENGINE = os.environ.get("ATOLL_ENGINE", "spark")
_LINGER_MS = float(os.environ.get("ATOLL_LINGER_MS", "0"))
_STEPS = ("prime", "process", "commit", "publish", "tidy")


class Stop:
    """Stops this process by SIGSTOP, once, at the place wanted."""

    def __init__(self, place):
        self.place = place
        self.armed = False

    def at(self, place):
        """Stop here, if it is the place and the time."""
        if self.armed and place == self.place:
            self.armed = False
            self.place = None
            os.kill(os.getpid(), signal.SIGSTOP)

    def between(self, step, microbatch):
        """After a step: the next one begins here."""
        self.armed = self.place is not None and microbatch >= STOP_AFTER_MICROBATCH
        self.at(_STEPS[(_STEPS.index(step) + 1) % len(_STEPS)])

    def inside(self, row):
        """In a user's function."""
        self.at("inside")

    def watch_fsync(self):
        """Stop before the fsync that an append waits for."""
        real = segment_file._datasync

        def sync(descriptor):
            self.at("append")
            real(descriptor)

        segment_file._datasync = sync


STOP = Stop(os.environ.get("ATOLL_STOP"))


def say(*words):
    """One line in one write: several threads speak."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def end_with_parent():
    """Be killed when the test is: nothing else would end a stopped process."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def observe(step, microbatch):
    """One line per step, and perhaps a moment to be hit in."""
    say(step.name.lower(), microbatch)
    STOP.between(step.name.lower(), microbatch)
    if _LINGER_MS:
        time.sleep(random.uniform(0.0, _LINGER_MS) / 1000.0)


def wanted(log, how, *rest):
    """The numbers of the records to append."""
    if how == "same":
        return [int(line) for line in Path(rest[0]).read_text().split()]
    first = int(os.environ.get("ATOLL_FIRST", "0"))
    if log.exists():
        lines = [line.split() for line in log.read_text().splitlines()]
        first = max((int(last) for _, _, last in lines), default=first - 1) + 1
    return itertools.count(first) if how == "forever" else range(first, first + int(rest[0]))


class Appender(threading.Thread):
    """Keeps the topology busy, and a book of what was tried and what was acknowledged."""

    def __init__(self, app, log, numbers):
        super().__init__(daemon=True)
        self.app = app
        self.log = log
        self.numbers = iter(numbers)
        self.refused = None

    def run(self):
        """Until all records are appended, or this process is fenced."""
        depot, topology = self.app.depot(DEPOT), self.app.topology(TOPOLOGY)
        with self.log.open("a", buffering=1) as book:
            while batch := list(itertools.islice(self.numbers, BATCH)):
                while (
                    sum(depot.end_offsets()) - topology.status()["processed"] > AHEAD
                    and self.app.fenced is None
                ):
                    time.sleep(0.002)
                book.write(f"try {batch[0]} {batch[-1]}\n")
                try:
                    depot.append([record_of(number) for number in batch])
                except AtollError as error:
                    self.refused = error
                    return
                book.write(f"ack {batch[0]} {batch[-1]}\n")


def stand(app, log, total):
    """Go on until a microbatch ran on standing tasks; the records by then."""
    ways = ["spark"]
    over = time.monotonic() + STAND_SECONDS_MAX
    while "spark" in ways and time.monotonic() < over:
        appender = Appender(app, log, wanted(log, "more", BATCH))
        appender.start()
        appender.join()
        total += BATCH
        app.topology(TOPOLOGY).wait_processed(total, timeout_seconds=300)
        ways = app.topology(TOPOLOGY).status()["jobs"]
    say("ways", *ways)
    return total


def main():
    """Run until everything is processed, or until killed or fenced."""
    end_with_parent()
    root = Path(sys.argv[1])
    log = root.with_name(os.environ.get("ATOLL_ACKS", "acks.log"))
    if STOP.place == "append":
        STOP.watch_fsync()
    with LocalCluster(root, observer=observe, engine=ENGINE) as cluster:
        inside = STOP.inside if ENGINE == "inline" else None
        app = cluster.deploy(build(inside, columns=ENGINE == "spark"))
        told = threading.Event()

        def tell(reason):
            say("fenced", reason.message)
            told.set()

        app.on_fenced(tell)
        say("begun")
        appender = Appender(app, log, wanted(log, *sys.argv[2:]))
        appender.start()
        appender.join()
        if appender.refused is not None:
            say("refused", appender.refused.code, appender.refused.message)
            told.wait(TELL_SECONDS_MAX)
            raise SystemExit(FENCED)
        total = sum(app.depot(DEPOT).end_offsets())
        app.topology(TOPOLOGY).wait_processed(total, timeout_seconds=300)
        if os.environ.get("ATOLL_STAND"):
            total = stand(app, log, total)
        say("finished", total)


if __name__ == "__main__":
    main()
