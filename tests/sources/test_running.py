"""Sources of a module that runs: in a thread each, seen, paused, failing alone."""

import contextlib

import pytest
from fastapi.testclient import TestClient

import atoll
from atoll.errors import AtollError, NotFoundError, WaitTimeoutError
from atoll.fsck.root import check_root
from atoll.server import create_app
from atoll.sources import Files, SourceError


@pytest.fixture
def folder(tmp_path):
    """An empty folder of files, and one that a second source reads."""
    for name in ("in", "other"):
        (tmp_path / name).mkdir()
    return tmp_path


def module_over(folder):
    """Two depots that are fed, one of them with a place for what does not fit."""
    module = atoll.Module("m")
    settings = {"settled": "0 seconds", "poll": "20 milliseconds"}
    aside = module.dead_letter_depot("aside")
    fed = module.depot(
        "fed", "v long", source=Files(folder / "in" / "*", dead_letter=aside, **settings)
    )
    other = module.depot("other", "v long", source=Files(folder / "other" / "*", **settings))
    module.depot("plain", "v long")
    mb = module.microbatch("mb")
    for depot in (fed, other):
        total = mb.pstate(f"{depot.name}_sum", int, initial=0)
        mb.source(depot).aggregate(total, atoll.agg.sum("v"))
    return module


def cluster_on(folder):
    """Without Spark."""
    return atoll.LocalCluster(folder / "root", engine="inline")


def test_files_reach_the_state_and_are_seen(folder):
    """In status, in metrics and over HTTP; after a restart nothing comes twice."""
    module = module_over(folder)
    (folder / "in" / "a.csv").write_text("v\n1\n2\nx\n")
    for life in range(2):
        with cluster_on(folder) as cluster:
            app = cluster.deploy(module)
            app.source("fed").wait_idle()
            app.source(module.depots["other"]).wait_idle()
            app.wait_idle()
            assert app.pstate("fed_sum").get() == 3
            assert app.depot("aside").end_offsets() == (1,)
            assert app.status()["depots"]["plain"]["source"] is None
            status = app.status()["depots"]["fed"]["source"]
            assert status["position"] == {"files": 1, "last": "a.csv"}
            assert status["lag"] == {"waiting": 0, "of": "files"}
            assert (status["records"], status["refused"]) == ((2, 1) if not life else (0, 0))
            assert (status["state"], status["error"]) == ("running", None)
            assert repr(app.source("fed")) == "<files source of 'm/fed': running>"
    with pytest.raises(NotFoundError, match="no source feeds depot 'plain'"):
        app.source("plain")


def test_a_source_that_fails_stops_nothing_else_and_goes_on_when_it_can(folder):
    """Its status says why; it tries again by itself, or at once when it is told to."""
    with cluster_on(folder) as cluster:
        app = cluster.deploy(module_over(folder))
        (folder / "other" / "a.csv").write_text("v\n1\nx\n")
        with pytest.raises(SourceError, match="does not fit"):
            app.source("other").wait_idle()
        status = app.source("other").status()
        assert (status["state"], status["error"]["code"]) == ("failing", "E-SOURCE")
        assert status["error"]["context"]["line"] == "3"
        (folder / "in" / "a.csv").write_text("v\n5\n")
        app.source("fed").wait_idle()
        app.wait_idle()
        assert app.pstate("fed_sum").get() == 5
        assert app.pstate("other_sum").get() == 0
        (folder / "other" / "a.csv").write_text("v\n1\n2\n")
        while app.source("other").status()["position"] != {"files": 1, "last": "a.csv"}:
            app.source("other").resume()
            with contextlib.suppress(SourceError):  # that it changed since it was planned
                app.source("other").wait_idle()
        app.wait_idle()
        assert app.pstate("other_sum").get() == 3
        assert app.source("other").state == "running"


def test_a_pause_lasts_over_restarts(folder):
    """Nothing is read until somebody lets it go on."""
    (folder / "in" / "a.csv").write_text("v\n1\n")
    with cluster_on(folder) as cluster:
        app = cluster.deploy(module_over(folder))
        app.source("fed").wait_idle()
        app.source("fed").pause()
        (folder / "in" / "b.csv").write_text("v\n2\n")
    with cluster_on(folder) as cluster:
        app = cluster.deploy(module_over(folder))
        assert app.source("fed").state == "paused"
        with pytest.raises(WaitTimeoutError):
            app.source("fed").wait_idle(0.05)
        assert sum(app.depot("fed").end_offsets()) == 1
        app.source("fed").resume()
        app.source("fed").wait_idle()
        assert sum(app.depot("fed").end_offsets()) == 2


def test_an_update_goes_on_where_the_version_before_was(folder):
    """And a source that is taken away is read no more."""
    module = module_over(folder)
    with cluster_on(folder) as cluster:
        app = cluster.deploy(module)
        (folder / "in" / "a.csv").write_text("v\n1\n")
        app.source("fed").wait_idle()
        before = app.source("fed")
        app = cluster.deploy(module_over(folder))
        assert before.state == "stopped"
        with pytest.raises(AtollError):
            before.wait_idle()
        (folder / "in" / "b.csv").write_text("v\n2\n")
        app.source("fed").wait_idle()
        assert sum(app.depot("fed").end_offsets()) == 2
        cluster.kill()


def test_fsck_reads_what_is_kept_of_sources(folder):
    """And says what a damaged plan costs."""
    with cluster_on(folder) as cluster:
        app = cluster.deploy(module_over(folder))
        (folder / "in" / "a.csv").write_text("v\n1\n")
        app.source("fed").wait_idle()
        app.source("fed").pause()
    assert check_root(folder / "root").is_sound
    (plan,) = (folder / "root").glob("m/depots/fed/sources/*/plans/*")
    plan.write_bytes(b"x" + plan.read_bytes())
    (found,) = check_root(folder / "root").damages()
    assert "how far the source was read" in found.cost


def test_http_shows_pauses_and_resumes(folder):
    """Beside the depot."""
    with cluster_on(folder) as cluster:
        app = cluster.deploy(module_over(folder))
        (folder / "in" / "a.csv").write_text("v\n1\n2\nx\n")
        app.source("fed").wait_idle()
        client = TestClient(create_app(app), base_url="http://127.0.0.1")
        at = "/v1/modules/m/depots"
        found = client.get(f"{at}/fed/source").json()
        assert (found["kind"], found["records"]) == ("files", 2)
        assert client.post(f"{at}/fed/source/pause", json={}).json()["state"] == "paused"
        assert client.post(f"{at}/fed/source/resume", json={}).status_code == 200
        assert client.get(f"{at}/plain/source").status_code == 404
        text = client.get("/metrics").text
        labels = 'depot="fed",kind="files",module="m"'
        assert f"atoll_source_records_total{{{labels}}} 2.0" in text
        assert f"atoll_source_refused_total{{{labels}}} 1.0" in text
        assert f'atoll_source_waiting{{{labels},of="files"}} 0.0' in text
