"""A process that sends events by key and changes copies, moving state, until it is killed."""

from __future__ import annotations

import itertools
import logging
import random
import sys
import threading

from atoll.cluster.local import LocalCluster
from atoll.runtime.service import sending
from atoll.runtime.service.runtimes import Runtimes

KEYS = 30
DEFINITION = {
    "name": "r",
    "actors": [
        {"name": "in", "type": "httpbroadcast"},
        {"name": "sum", "type": "stats", "params": {"field": "v"}, "group": {"by": "k"}},
    ],
    "links": [{"from": "in", "to": "sum"}],
    "distribution": {"by": "k"},
}


def main(root, seed):
    """Two threads: one sends, one changes the copies; each line says what is done."""
    logging.getLogger("atoll").addHandler(logging.NullHandler())
    runtimes = Runtimes(LocalCluster(root, engine="inline"))
    runtimes.open()
    found = next(iter(runtimes), None) or runtimes.create(DEFINITION)
    runtime = found if found.status == "running" else runtimes.start(found)
    sent = threading.Event()
    change = (runtimes, runtime, random.Random(seed), sent)
    threading.Thread(target=_scale, args=change, daemon=True).start()
    for number in itertools.count():
        events = [{"k": f"k{(number + at) % KEYS}", "v": 1} for at in range(7)]
        sending.send(runtimes, runtime, "in", events)
        _say("accepted", len(events))
        sent.set()


def _scale(runtimes, runtime, chance, sent):
    while sent.wait():  # else nobody would come in between two moves
        sent.clear()
        _say("copies", runtimes.scale(runtime, chance.randrange(1, 9), "move").copies)


def _say(what, number):
    sys.stdout.write(f"{what} {number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
