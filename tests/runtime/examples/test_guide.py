"""The guide from curl alone: each of its requests, in order, against a service that runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from atoll.cluster.local import LocalCluster
from atoll.fsck.root import check_root
from atoll.runtime.service.runtimes import Runtimes
from atoll.server import create_app, serve
from atoll.server.serve import bind

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "runtimes.md"


def answers(text):
    """The JSON values that several requests printed one after the other."""
    decoder, found = json.JSONDecoder(), []
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_requests_of_the_guide_do_what_it_says(tmp_path):
    """All but the one that is wrong on purpose succeed; then the root is whole."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        with serve(create_app(runtimes=runtimes), bind("127.0.0.1", 0)) as address:
            said = []
            for block in blocks:
                script = block.replace("http://127.0.0.1:7410", address.url)
                done = subprocess.run(
                    ["bash", "-ec", script], cwd=ROOT, capture_output=True, text=True, check=True
                )
                said += answers(done.stdout)
        runtimes.close()
    assert not [each for each in said if each.get("success") is False]
    assert said[0]["name"] == "orders"
    assert said[1]["valid"] is False
    shunted = next(each for each in said if each.get("action") == "Shunt")
    assert shunted["emitted"] == [{"amount": 250, "city": "ghent", "country": "belgium"}]
    assert said[-1]["action"] == "Delete runtime"
    assert len(said) == 12


def test_a_root_with_runtimes_is_found_whole_and_its_registry_is_looked_at(tmp_path):
    """``atoll fsck`` knows what runtimes keep."""
    given = json.loads((ROOT / "examples" / "runtimes" / "orders.json").read_text())
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        runtime = runtimes.start(runtimes.create(given))
        runtimes.running(runtime).send("large", [{"amount": 100}])
        runtimes.running(runtime).wait_all()
        runtimes.close()
    assert list(check_root(tmp_path).damages()) == []
    (tmp_path / "meta" / "runtimes" / f"{1:020d}").write_bytes(b"gone")
    assert "runtimes" in next(iter(check_root(tmp_path).damages())).file
