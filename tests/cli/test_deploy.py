"""``atoll deploy`` against a service over a real module whose file changes."""

import json
import os
import sys

import httpx
import pytest

from atoll import LocalCluster
from atoll.cli.target import load_module
from atoll.cluster.deploy import lives
from atoll.cluster.deploy.redeployer import Redeployer
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
def edited(tmp_path, service, monkeypatch):
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
        cluster.on_change(seen.append)
        app = cluster.deploy(load_module(str(target)))
        deployer = Redeployer(
            cluster, app.name, str(target), lambda: load_module(str(target), again=True)
        )
        service.application = create_app(app, deployers={"summing": deployer})
        monkeypatch.setenv("ATOLL_URL", service.url)
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


def test_a_version_that_cannot_be_started(atoll, edited, monkeypatch):
    """The one before runs again, behind the same address; the error says so."""
    edit, deployer = edited
    append(deployer, 1)
    before = deployer.app
    edit(1, COUNTS)
    with monkeypatch.context() as patched:
        patched.setattr(lives, "claim_epoch", _full)
        patched.setattr(deployer._cluster._deploying.reviver, "begin", lambda: None)
        done = atoll("deploy", "summing")
    assert done.code == 1
    assert "module 'summing' does not run" in done.err
    health = httpx.get(os.environ["ATOLL_URL"] + "/healthz")
    assert (health.status_code, health.json()["status"]) == (503, "stopped")
    assert "No space left" in health.json()["modules"]["summing"]["detail"]
    shown = atoll("status")
    assert shown.out.splitlines()[2].split() == ["summing", "stopped"]
    assert "does not run" in shown.err
    assert "to do: " in shown.err
    told = atoll("append", "summing", "rows", '{"k": "a", "v": 0}')
    assert (told.code, "code: E-STOPPED" in told.err) == (1, True)
    assert atoll("worker", "cordon", "summing", 0).code == 0
    assert atoll("worker", "uncordon", "summing", 0).code == 0
    metrics = httpx.get(os.environ["ATOLL_URL"] + "/metrics").text
    assert 'atoll_topology_state{module="summing",state="stopped",topology="mb"} 1.0' in metrics

    assert atoll("deploy", "summing").code == 0
    assert httpx.get(os.environ["ATOLL_URL"] + "/healthz").json() == {"status": "ok"}
    append(deployer, 2)
    assert deployer.app.pstate("sums").get("a") == 3
    with monkeypatch.context() as patched:
        patched.setattr(lives, "save_deployment", _full)
        edit(5, "")
        done = atoll("deploy", "summing", "--remove", "pstate:counts")
    assert "the version before runs again" in done.err
    assert deployer.app is not before
    assert atoll("append", "summing", "rows", '{"k": "a", "v": 0}').code == 0
    deployer.app.topology("mb").wait_processed(3)
    assert deployer.app.pstate("sums").get("a") == 4
    assert deployer.app.pstate("counts").get("a") == 3


def _full(*_args, **_kwargs):
    raise OSError(28, "No space left on device")


def test_without_a_unit(atoll, edited):
    """The plan says so, and the running version can still be asked to uncordon its workers."""
    edit, deployer = edited
    assert atoll("worker", "cordon", "summing", 0).code == 0
    more = "module.microbatch('more', vnode_count=2).source(rows).map(lambda r: r.asdict(), "
    more += "emits='k string, v long').append_to(module.depot('to', 'k string, v long'))"
    edit(2, f"{COUNTS}\n{more}")
    done = atoll("deploy", "summing", "--dry-run")
    assert (done.code, "finds no parallel unit" in done.out) == (1, True)
    (hint,) = [line for line in done.err.splitlines() if line.startswith("to do: ")]
    assert "uncordon" in hint
    assert "uncordon" not in done.out
    refused = atoll("deploy", "summing").err
    assert "finds no parallel unit" in refused
    assert refused.count(hint) == refused.count(hint.removeprefix("to do: ")) == 1
    append(deployer, 1)
    assert atoll("worker", "uncordon", "summing", 0).code == 0
    done = atoll("deploy", "summing", "--dry-run")
    assert (done.code, done.err) == (0, "")


def test_what_is_paused_stays_paused_and_is_said(atoll, edited):
    """By the unchanged deployment, and by the status."""
    _, deployer = edited
    assert atoll("pause", "summing", "mb").code == 0
    for done in (atoll("deploy", "summing"), atoll("status")):
        assert done.code == 0
        assert "mb of summing is paused since " in done.err
        assert f"atoll resume summing mb --url {os.environ['ATOLL_URL']}" in done.err
    told = json.loads(atoll("deploy", "summing", "-o", "json").out)
    assert told["topologies"]["mb"]["state"] == "paused"
    assert atoll("resume", "summing", "mb").code == 0
    append(deployer, 1)
