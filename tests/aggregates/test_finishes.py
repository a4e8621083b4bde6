"""Who reads a root knows how every aggregate's state is shown, without having declared any."""

from __future__ import annotations

import json
import subprocess
import sys

KNOWN = (
    "import json, sys\n"
    "import atoll.codec.values.leaf\n"
    "from atoll.aggregates import finish\n"
    "known = sorted(finish._KNOWN)\n"
    "import atoll.aggregates, pkgutil, importlib\n"
    "for each in pkgutil.walk_packages(atoll.aggregates.__path__, 'atoll.aggregates.'):\n"
    "    importlib.import_module(each.name)\n"
    "print(json.dumps([known, sorted(finish._KNOWN)]))\n"
)


def test_the_codec_knows_every_finish() -> None:
    """A process that has imported the codec alone knows the words of all aggregates' modules."""
    command = [sys.executable, "-c", KNOWN]
    known, there = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert known == there
    assert {"avg", "boxed", "distinct", "map", "ordered", "percentile", "plain"} <= set(known)
