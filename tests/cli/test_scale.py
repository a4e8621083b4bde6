"""``atoll cluster``, ``scale`` and ``worker`` against a service over a real module."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from scaled import FOLLOWER, MODULE, PAIRS, REFUSED, SUM, build, options, running

from atoll import LocalCluster
from atoll.server import create_app

ROOT = Path(__file__).parents[2]


@pytest.fixture
def serving(service, monkeypatch):
    """Serves a module where commands look for it."""

    def serve(app, cluster=None):
        service.application = create_app(app, cluster=cluster)
        monkeypatch.setenv("ATOLL_URL", service.url)
        return service.url

    return serve


@pytest.fixture(scope="module")
def _still(tmp_path_factory):
    with running(tmp_path_factory.mktemp("still")) as (_, app):
        yield app


@pytest.fixture
def still(_still, serving):
    """The cluster of a served module of two vnodes that no test changes."""
    serving(_still)
    return _still.cluster


@pytest.fixture
def moving(tmp_path, serving):
    """The local cluster, and the cluster of a served module of 12 vnodes."""
    with running(tmp_path / "root", vnode_count=12) as (cluster, app):
        serving(app)
        yield cluster, app.cluster


def by_hand(atoll, plan, cluster, *more):
    """Scale by a plan for the current revision."""
    return atoll("scale", MODULE, "--plan", plan, "--revision", cluster.info().revision, *more)


class TestCluster:
    """``atoll cluster``."""

    def test_tables(self, atoll, still):
        """Revision, workers, matrix: the units worker by worker, a dot for a source fragment."""
        done = atoll("cluster", MODULE)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines() == [
            f"revision {still.info().revision}",
            "",
            "id  name   host       state     units  actors  vnodes",
            "--  -----  ---------  --------  -----  ------  ------",
            " 0  local  127.0.0.1  running   0,1,2       8       3",
            " 1  spare  127.0.0.1  cordoned  3,4         2       0",
            " 2  short  127.0.0.1  gone      5           0       0",
            "",
            "id  topology  name             kind       follows  policy    0:0  0:1  0:2  1:3  1:4",
            "--  --------  ---------------  ---------  -------  --------  ---  ---  ---  ---  ---",
            " 1  mb        source           source              adaptive    .    .    .    .    .",
            " 2  mb        process add      hash                adaptive    1    1",
            " 3  mb        process also     hash       2        adaptive    1    1",
            " 4  mb        aggregate total  singleton           adaptive    1",
        ]

    def test_json(self, atoll, still):
        """Everything that the service says."""
        done = atoll("cluster", MODULE, "-o", "json")
        assert json.loads(done.out) == json.loads(json.dumps(still.describe()))

    def test_when_all_have_gone_it_shows_where_things_ran(self, atoll, moving):
        """Units of a worker that has gone are shown while something is to run there."""
        cluster, _ = moving
        cluster.lose_worker("spare")
        cluster.lose_worker("local")
        lines = atoll("cluster", MODULE).out.splitlines()
        assert [line.split()[3] for line in lines[4:7]] == ["gone"] * 3
        assert lines[8].split()[-3:] == ["0:0", "0:1", "0:2"]

    def test_no_such_module(self, atoll, still):
        """Says what runs."""
        done = atoll("cluster", "other")
        assert (done.code, done.out) == (1, "")
        assert f"running: {MODULE}" in done.err


class TestScale:
    """``atoll scale``."""

    def test_by_policy(self, atoll, moving):
        """It says what moved, per fragment and unit; a source fragment shows dots."""
        _, cluster = moving
        done = atoll("scale", MODULE, "mb", "--parallelism", "bounded(2)")
        assert (done.code, done.err) == (0, "")
        info = cluster.info()
        assert info.policies == {"mb": "bounded(2)"}
        lines = done.out.splitlines()
        assert lines[0].startswith("vnodes moved: 6, bytes between workers: ")
        assert lines[1:5] == [
            f"revision {info.revision}",
            "",
            "fragment  unit  before  after",
            "--------  ----  ------  -----",
        ]
        assert [line.split() for line in lines[5:]] == [
            ["1", "2", "."],
            ["1", "3", "."],
            ["1", "4", "."],
            ["2", "0", "3", "6"],
            ["2", "1", "3", "6"],
            ["2", "2", "2", "0"],
            ["2", "3", "2", "0"],
            ["2", "4", "2", "0"],
        ]

    def test_by_hand(self, atoll, moving):
        """White space means nothing; all fragments of the plan move."""
        _, cluster = moving
        done = by_hand(atoll, f"{PAIRS} - [3, 4]; {SUM}-[0]+[1]", cluster)
        assert (done.code, done.err) == (0, "")
        assert cluster.info().fragment(PAIRS).units == (0, 1, 2)
        assert cluster.info().fragment(FOLLOWER).units == (0, 1, 2)
        assert cluster.info().fragment(SUM).units == (1,)
        assert by_hand(atoll, f"{FOLLOWER}-[2]", cluster, "--resolve").code == 0
        assert cluster.info().fragment(PAIRS).units == (0, 1)

    def test_json(self, atoll, moving):
        """As the service describes it, in both forms."""
        _, cluster = moving
        done = json.loads(by_hand(atoll, f"{PAIRS}-[4]", cluster, "-o", "json").out)
        assert done["fragments"][str(PAIRS)]["removed"] == [4]
        assert done["revision"] == cluster.info().revision
        done = atoll("scale", MODULE, "mb", "--parallelism", "2", "--dry-run", "-o", "json")
        assert json.loads(done.out)["dry_run"] is True

    def test_dry_run(self, atoll, moving):
        """Both forms say what would be, and change nothing."""
        _, cluster = moving
        before = cluster.info()
        planned = by_hand(atoll, f"{PAIRS}-[4]", cluster, "--dry-run")
        policy = atoll("scale", MODULE, "mb", "--parallelism", "1", "--dry-run")
        for done in (planned, policy):
            assert done.out.startswith("vnodes to move: ")
        assert "revision" not in planned.out
        assert cluster.info() == before
        (told,) = re.findall(r"^as a plan: (.*)$", policy.out, re.MULTILINE)
        again = atoll("scale", MODULE, *shlex.split(told), "--dry-run")
        assert again.out == policy.out.partition("\nas a plan:")[0]

    def test_nothing_to_do(self, atoll, still):
        """It says so."""
        done = atoll("scale", MODULE, "mb", "--parallelism", "adaptive", "--dry-run")
        assert (done.code, done.out) == (0, "nothing moves\n")

    def test_more_units_than_there_are(self, atoll, moving):
        """The policy is stored and says what is missing, and how to add it; dry alike."""
        local, cluster = moving
        before = cluster.info()
        dry = atoll("scale", MODULE, "mb", "--parallelism", "9", "--dry-run")
        assert dry.code == 0
        assert "policy fixed(9) of mb would be stored, but mb has " in dry.err
        assert cluster.info() == before
        done = atoll("scale", MODULE, "mb", "--parallelism", "9")
        assert done.code == 0
        assert "is stored, but mb has 5 of the 9 units that it asks for: 4 missing" in done.err
        assert "to do: atoll worker units 7 (cluster.set_units(7) in Python)" in done.err
        assert cluster.info().policies == {"mb": "fixed(9)"}
        again = atoll("scale", MODULE, "mb", "--parallelism", "9")
        assert (again.code, again.out) == (0, "nothing moves\n")
        assert "is stored" in again.err
        told = json.loads(atoll("scale", MODULE, "mb", "--parallelism", "9", "-o", "json").out)
        assert told["shortage"]["missing"] == 9 - told["shortage"]["has"]
        assert cluster.set_parallelism("mb", "9").shortage.asked == 9
        local.add_worker("more", 6)
        done = atoll("scale", MODULE, "mb", "--parallelism", "9")
        assert (done.code, done.err) == (0, "")

    @pytest.mark.parametrize("case", REFUSED)
    def test_refused(self, atoll, still, case):
        """Each check with its problem, what to do, and the exit code of an error; dry alike."""
        before = still.info()
        done = atoll("scale", MODULE, *options(REFUSED[case], before.revision))
        dry = atoll("scale", MODULE, *options(REFUSED[case], before.revision), "--dry-run")
        assert dry == done
        assert (done.code, done.out) == (1, "")
        assert f"problem={case.partition(',')[0]}" in done.err
        assert "to do: " in done.err
        assert "code: E-RESCHEDULE" in done.err
        assert still.info() == before

    def test_a_stale_revision_tells_the_current_one(self, atoll, still):
        """In the message itself."""
        done = atoll("scale", MODULE, "--plan", "2-[0]", "--revision", "0")
        assert done.code == 1
        assert f"the cluster is at revision {still.info().revision}, not at 0" in done.err

    def test_while_the_module_stops(self, atoll, moving):
        """As well."""
        _, scaling = moving
        scaling.close()
        done = by_hand(atoll, f"{PAIRS}-[0]", scaling)
        assert done.code == 1
        assert "problem=unavailable" in done.err

    def test_while_a_topology_recovers(self, atoll, moving, monkeypatch):
        """It runs nothing yet."""
        cluster, scaling = moving
        loop = next(iter(cluster.apps.values()))._loops["mb"]
        monkeypatch.setattr(type(loop), "recovering", True)
        done = by_hand(atoll, f"{PAIRS}-[0]", scaling)
        assert done.code == 1
        assert "problem=fragment not running" in done.err

    def test_no_workers(self, atoll, moving):
        """Refused as well."""
        cluster, scaling = moving
        cluster.lose_worker("spare")
        cluster.lose_worker("local")
        done = by_hand(atoll, f"{PAIRS}-[0]", scaling)
        assert done.code == 1
        assert "problem=no workers" in done.err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "--parallelism, or --plan and --revision"),
            (["mb"], "--parallelism, or --plan and --revision"),
            (["--parallelism", "2"], "name it behind the module"),
            (["mb", "--parallelism", "2", "--revision", "1"], "go with --plan"),
            (["mb", "--parallelism", "2", "--resolve"], "go with --plan"),
            (["--plan", "2-[0]"], "atoll cluster showed"),
            (["mb", "--plan", "2-[0]", "--revision", "1"], "leave 'mb' out"),
            (["mb", "--plan", "2-[0]", "--parallelism", "2"], "give one of them"),
            (["--plan", "2-[0", "--revision", "1"], "12-[0,3]+[5];13-[4];14+[2]"),
            (["--plan", "", "--revision", "1"], "12-[0,3]+[5];13-[4];14+[2]"),
            (["--plan", "2", "--revision", "1"], "changes nothing"),
            (["--plan", "2-[0];2+[1]", "--revision", "1"], "names fragment 2 again"),
            (["mb", "--parallelism", "0"], "from 1"),
            (["mb", "--parallelism", "ratio(2)"], "from 0 to 1"),
            (["mb", "--parallelism", "custom"], "reschedule the topology's fragments"),
            (["mb", "--parallelism", "many"], "bounded(4)"),
        ],
    )
    def test_mistakes(self, atoll, still, arguments, words):
        """Each says what to do; nothing has changed."""
        before = still.info()
        done = atoll("scale", MODULE, *arguments)
        assert (done.code, done.out) == (1, "")
        assert words in done.err
        assert "to do: " in done.err
        assert "code: E-USAGE" in done.err
        assert still.info() == before

    def test_what_does_not_parse(self, atoll, still):
        """Is told before the service is asked."""
        assert atoll("scale", MODULE, "--plan", "2-[0]", "--revision", "x").code == 2
        assert atoll("scale", MODULE, "--plan", "2-[0]", "--revision", "-1").code == 2
        assert atoll("scale").code == 2


class TestWorker:
    """``atoll worker``."""

    def test_cordon_and_back(self, atoll, moving):
        """It prints the workers as they are then."""
        _, cluster = moving
        lines = atoll("worker", "uncordon", MODULE, 1).out.splitlines()
        assert lines[3].split()[:4] == ["1", "spare", "127.0.0.1", "running"]
        lines = atoll("worker", "cordon", MODULE, 0, 1).out.splitlines()
        assert [line.split()[3] for line in lines[2:]] == ["cordoned", "cordoned", "gone"]
        done = atoll("worker", "cordon", MODULE, 1, "-o", "json")
        assert json.loads(done.out)["revision"] == cluster.info().revision

    def test_remove(self, atoll, moving):
        """What runs there is told; a worker without actors goes."""
        _, cluster = moving
        done = atoll("worker", "remove", MODULE, 2, 1)
        assert done.code == 1
        assert "problem=worker occupied" in done.err
        assert "cordon it and move its actors" in done.err
        assert len(cluster.info().workers) == 3
        done = atoll("worker", "remove", MODULE, 2)
        assert [line.split()[0] for line in done.out.splitlines()[2:]] == ["0", "1"]

    @pytest.mark.parametrize("action", ["cordon", "uncordon", "remove"])
    def test_mistakes(self, atoll, still, action):
        """An unknown worker, and command lines that do not parse."""
        done = atoll("worker", action, MODULE, 9)
        assert (done.code, done.out) == (1, "")
        assert "there are: 0, 1, 2" in done.err
        assert atoll("worker", action, MODULE).code == 2
        assert atoll("worker", action, MODULE, "local").code == 2
        assert atoll("worker", action, MODULE, "-1").code == 2

    def test_help(self, atoll):
        """The three commands."""
        done = atoll("worker", "--help")
        assert {"cordon", "uncordon", "remove"} <= set(done.out.split())


class TestOfTheRoot:
    """Without a module: all modules of the root."""

    @pytest.fixture
    def both(self, tmp_path, service, monkeypatch):
        """A local cluster with two modules, served."""
        with running(tmp_path / "root", vnode_count=12) as (cluster, app):
            more = cluster.deploy(build(4, name="more"))
            service.application = create_app(app, more, cluster=cluster.whole)
            monkeypatch.setenv("ATOLL_URL", service.url)
            yield cluster

    def test_one_matrix_one_plan_one_cordon(self, atoll, both):
        """As of each module."""
        info = both.whole.info()
        theirs = next(
            each.id for each in info.fragments if (each.topology, each.kind) == ("more/mb", "hash")
        )
        lines = atoll("cluster").out.splitlines()
        assert f" {theirs}  more/mb" in "\n".join(lines)
        assert lines[0] == f"revision {info.revision}"
        plan = f"{PAIRS}-[0];{theirs}-[1]"
        done = atoll("scale", "--plan", plan, "--revision", info.revision, "--timeout", "20")
        assert (done.code, done.err) == (0, "")
        after = both.whole.info()
        assert 0 not in after.fragment(PAIRS).units
        assert 1 not in after.fragment(theirs).units
        assert atoll("worker", "cordon", 0).code == 0
        assert both.apps["more"].cluster.info().workers[0].cordoned
        assert json.loads(atoll("cluster", "-o", "json").out)["workers"][0]["state"] == "cordoned"
        assert atoll("worker", "remove", 2).code == 0
        assert atoll("worker", "leave", 0).code == 0
        states = [line.split()[3] for line in atoll("worker", "uncordon", 1).out.splitlines()[2:]]
        assert states == ["leaving", "running"]
        assert atoll("worker", "leave").code == atoll("worker", "leave", "x").code == 2

    def test_more_units_while_it_runs(self, atoll, both):
        """The line that a scale beyond what is there prints does it, for all modules; and back."""
        asked = ("scale", "more", "mb", "--parallelism", "4")
        atoll("worker", "remove", 1)
        done = atoll(*asked)
        (line,) = re.findall(r"atoll (worker units \d+) ", done.err)
        assert line == "worker units 4"
        done = atoll(*line.split())
        assert (done.code, done.err) == (0, "")
        assert "0,1,2,6" in done.out
        assert both.apps["more"].cluster.info().roots("mb")[1].units == (0, 1, 2, 6)
        assert (atoll(*asked).out, atoll(*asked).err) == ("nothing moves\n", "")
        done = atoll("worker", "units", 1, "-o", "json")
        assert len(json.loads(done.out)["workers"][0]["units"]) == 1
        assert [atoll("worker", "units", n).code for n in (0, 1025, "a")] == [2, 2, 2]

    def test_the_waiting_time_of_a_reschedule_has_bounds(self, atoll, both):
        """As the service has them."""
        for given in ("0", "-1", "301", "x"):
            done = atoll("scale", MODULE, "mb", "--parallelism", "2", "--timeout", given)
            assert done.code == 2


def _shown():
    """The guide's commands in order, each with the output that the page shows."""
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines(keepends=True)
            count = next(n for n in range(1, len(lines) + 1) if _is_whole("".join(lines[:n])))
            found.append(("".join(lines[:count]), "".join(lines[count:])))
    return found


def _is_whole(command):
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\\n")


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="no curl or jq")
def test_the_lines_of_the_guide_do_what_it_shows(atoll, serving, tmp_path):
    """In order, on the module and the workers that it names."""
    example = ROOT / "examples" / "key_pairs.py"
    spec = importlib.util.spec_from_file_location("key_pairs", example)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    commands = _shown()
    assert len(commands) > 10
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=4) as cluster:
        url = serving(cluster.deploy(loaded.module), cluster.whole)
        cluster.add_worker("spare", 2)
        for command, shown in commands:
            if command.startswith("atoll "):
                done = atoll(*shlex.split(command)[1:])
                assert (done.code, done.err) == (0, ""), command
                out = done.out
            else:
                line = command.replace("http://127.0.0.1:7410", url)
                run = subprocess.run(
                    ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
                )
                out = run.stdout
            assert '"code":"E-' not in out, command
            assert not shown or out == shown, command
