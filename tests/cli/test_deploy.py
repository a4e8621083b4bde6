"""``atoll deploy`` against a service over a real module whose file changes."""

import json
import sys

import pytest

from atoll import LocalCluster
from atoll.cli.redeploy import Redeployer
from atoll.cli.target import load_module
from atoll.server import create_app

FILE = """
import atoll
from atoll import Map, agg, start
from beside import ADDED

module = atoll.Module({name!r})
rows = module.depot("rows", "k string, v long", partition_by="k")
mb = module.microbatch("mb", vnode_count=4)
sums = mb.pstate("sums", Map(str, int))
stream = mb.source(rows, start_from=start.beginning()).map(
    lambda row: {{"k": row.k, "v": row.v + ADDED}}, emits="k string, v long"
)
stream.aggregate(sums["k"], agg.sum("v"))
{more}
"""
COUNTS = 'stream.aggregate(mb.pstate("counts", Map(str, int))["k"], agg.count())'


@pytest.fixture
def edited(tmp_path, _service, monkeypatch):
    """A served module, and a function that writes another version of its files."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("beside", "summing", "atoll_target_summing"):  # of the test before
        monkeypatch.delitem(sys.modules, name, raising=False)
    target = tmp_path / "summing.py"

    def edit(added, more="", name="summing"):
        target.write_text(FILE.format(name=name, more=more), encoding="utf-8")
        (tmp_path / "beside.py").write_text(f"ADDED = {added}\n", encoding="utf-8")

    edit(2, COUNTS)
    seen = []
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(load_module(str(target)))
        deployer = Redeployer(cluster, str(target), app, seen.append)
        _service.application = create_app(app, deployers={"summing": deployer})
        monkeypatch.setenv("ATOLL_URL", _service.url)
        yield edit, deployer
    assert all(each.name == "summing" for each in seen)


def append(deployer, count):
    """One record of 0, then wait until so many are processed."""
    deployer.app.depot("rows").append([{"k": "a", "v": 0}])
    deployer.app.topology("mb").wait_processed(count)


def test_the_new_code_runs_after_it_also_that_of_files_beside(atoll, edited):
    """The count goes on, and requests reach the new version."""
    edit, deployer = edited
    append(deployer, 1)
    edit(1, COUNTS)
    done = atoll("deploy", "summing")
    assert done.code == 0, done.err
    assert done.out == "nothing changes but steps and functions\n"
    assert "summing runs the new version" in done.err
    append(deployer, 2)
    assert json.loads(atoll("query", "summing", "sums", "-o", "json").out) == {"a": 3}
    assert json.loads(atoll("status", "summing", "-o", "json").out)


def test_a_plan_is_shown_and_removal_needs_the_name(atoll, edited):
    """A dry run changes nothing; what is refused has exit code 1."""
    edit, deployer = edited
    append(deployer, 1)
    before = deployer.app
    edit(1)
    done = atoll("deploy", "summing", "--dry-run")
    assert done.code == 1
    assert done.out.splitlines()[2].startswith("refused  pstate:counts  no longer declared")
    done = atoll("deploy", "summing")
    assert (done.code, done.out) == (1, "")
    assert "E-DEPLOY" in done.err
    done = atoll("deploy", "summing", "--remove", "pstate:counts", "--dry-run", "-o", "json")
    assert json.loads(done.out) == {
        "module": "summing",
        "first": False,
        "changes": [
            {"effect": "removed", "part": "pstate:counts", "detail": "its data is deleted"}
        ],
        "dry_run": True,
    }
    assert deployer.app is before
    append(deployer, 2)
    assert deployer.app.pstate("sums").get("a") == 4
    assert atoll("deploy", "summing", "--remove", "pstate:counts").code == 0
    append(deployer, 3)
    assert deployer.app.pstate("sums").get("a") == 5
    assert atoll("query", "summing", "counts").code == 1


def test_mistakes_leave_the_running_version(atoll, edited):
    """Code that fails, another name, a module that is not there."""
    edit, deployer = edited
    edit(1, "1 / 0")
    assert "ZeroDivisionError" in atoll("deploy", "summing").err
    edit(1, COUNTS, name="other")
    assert "now is module 'other'" in atoll("deploy", "summing").err
    assert "no module 'nothing' runs here" in atoll("deploy", "nothing").err
    append(deployer, 1)
    assert deployer.app.pstate("sums").get("a") == 2


def test_a_service_without_code_says_so(atoll, url):
    """One that a program of the user's own has started."""
    done = atoll("deploy", "shop")
    assert done.code == 1
    assert "cannot deploy" in done.err or "no module 'shop'" in done.err
