"""The standing tasks of a session: who is let in; and on real Spark, what they run, and when."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from standing_fakes import LONG, Staff, come, connected, hello, let_go, listening, right, until

import atoll
from atoll import Map, agg, path
from atoll.cluster.local import LocalCluster
from atoll.engine.exchange.waybills import column_origins
from atoll.placement.reschedule.change import UnitChange
from atoll.spark import executor as executors
from atoll.spark.frames.job import JobFrames
from atoll.spark.standing import tasks as modules
from atoll.spark.standing.slots import HERE, Slots
from atoll.spark.standing.tasks import standing_tasks
from atoll.spark.standing.wire import ImpostorError

WAIT_SECONDS = 120.0
ROUNDS_MAX = 8


# Who is let in ------------------------------------------------------------------------------------


@pytest.fixture
def staff():
    """Posts that wait for tasks, and others."""
    made = Staff()
    yield made
    made.end()


@pytest.fixture
def standing(staff):
    """Standing tasks without Spark, which listen; post 0 waits for its task."""
    with listening(staff) as made:
        yield made


def test_a_task_that_proves_itself_mans_its_post(standing):
    """And the driver's folder is nobody else's."""
    wire = come(standing)
    until(lambda: standing._posts[HERE, 0].manned)
    assert standing.processes() == {"post 0": os.getpid()}
    folder = Path(standing._address).parent
    assert folder.stat().st_mode & 0o077 == 0
    standing.close()
    assert let_go(wire)
    assert not folder.exists()


def test_an_impostor_is_refused(standing):
    """Whoever does not know the secret, says too much, or nothing that is meant for a driver."""
    with pytest.raises((ImpostorError, EOFError, OSError)):
        come(standing, secret=b"another")
    bomb = pickle.dumps(os.getcwd)
    for said in (b"GET / HTTP/1.1\r\n\r\n" * 8, bomb * 20, b"\xff" * 4096, b"\0" * 4096):
        wire = connected(standing)
        wire._socket.sendall(said)
        wire.receive(time.monotonic() + LONG)  # the challenge, and nothing after it
        assert let_go(wire)
    assert not standing._posts[HERE, 0].manned
    assert come(standing)


def test_nothing_is_decoded_before(standing, monkeypatch):
    """Not even by the decoder that cannot run code: a hello is looked at when it is believed."""
    decoded = []
    real = modules.msgspec.msgpack.decode

    def decode(data, **how):
        decoded.append(bytes(data))
        return real(data, **how)

    monkeypatch.setattr(modules.msgspec.msgpack, "decode", decode)
    with pytest.raises((ImpostorError, EOFError, OSError)):
        come(standing, secret=b"another")
    assert decoded == []
    come(standing)
    until(lambda: standing._posts[HERE, 0].manned)
    assert decoded == [msgspec.msgpack.encode(hello(0))]


@pytest.mark.parametrize(
    "about",
    [hello(1), hello(0, generation=7), b"", b"\xc1", msgspec.msgpack.encode([1, 2])],
    ids=["no such post", "no such generation", "nothing", "no msgpack", "another shape"],
)
def test_who_is_not_awaited_is_let_go(standing, about):
    """Though it knows the secret: the task of a post that has ended, or of another version."""
    assert let_go(come(standing, about=about))
    assert not standing._posts[HERE, 0].manned
    assert standing._hellos.acquire(blocking=False)
    assert come(standing)


def test_only_so_many_prove_themselves_at_once(standing):
    """The others are let go; those who are silent hold the place only for a moment."""
    standing._hellos = threading.Semaphore(1)
    silent = connected(standing)
    silent.receive(time.monotonic() + LONG)
    assert let_go(connected(standing))
    silent.close()
    until(lambda: standing._hellos._value == 1)
    assert come(standing)


class _Failing:
    """A listener of which one call fails."""

    def __init__(self, listener, code):
        self.listener, self.codes = listener, [code]

    def accept(self):
        """Once it fails, as the system may at any time."""
        if self.codes:
            raise OSError(self.codes.pop(), "no")
        return self.listener.accept()

    def __getattr__(self, name):
        return getattr(self.listener, name)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ECONNABORTED])
def test_tasks_are_let_in_after_the_system_refused_one(standing, code):
    """Too many open files, or one who was gone before it came: the next one is let in."""
    standing._listener = _Failing(standing._listener, code)
    connected(standing).close()  # whom the accept that waits already takes
    until(lambda: not standing._listener.codes)
    come(standing)
    until(lambda: standing._posts[HERE, 0].manned)


# When tasks are let go ----------------------------------------------------------------------------


def test_a_set_ends_with_its_session(standing, staff):
    """Of a session that has died or was stopped nothing is left: no thread, socket or folder."""
    folder = Path(standing._address).parent
    staff.session.sparkContext._jsc = None
    until(lambda: not folder.exists(), "the end of the folder")
    until(lambda: standing._listener.fileno() == -1, "the end of the socket")


def test_room_is_made_when_the_work_is_done(standing, staff):
    """An ordinary job of one topology takes nothing away from another one's attempt."""
    began, go = threading.Event(), threading.Event()

    def at_work(request, task):
        began.set()
        assert go.wait(LONG)
        return right(request)

    post = staff.man(0, at_work)
    found = []
    working = threading.Thread(target=lambda: found.extend(staff.job({0: post}).direct()))
    working.start()
    assert began.wait(LONG)
    standing._slots = Slots({HERE: 1}, 1)
    standing.ordinary_job()
    assert standing.processes() == {}, "nobody begins anything there"
    assert not post.ended.wait(0.1)
    go.set()
    working.join(LONG)
    assert [each.unit for each in found] == [0]
    until(post.ended.is_set, "its end")
    until(staff.turns_are_back)


# On real Spark ------------------------------------------------------------------------------------

ROWS = "id long, k long, v long"


def passing(row, kept):
    """The first of two jobs."""
    kept[row.k] = kept.get(row.k, 0) + row.v
    yield row


def received(row, moved):
    """The second: over rows that the first one staged."""
    moved[row.v] = moved.get(row.v, 0) + 1


NAMES = ("plain", "columns")


def build(small, names=NAMES):
    """Two topologies over the same rows: one of Python and state steps, one with column steps."""
    module = atoll.Module(f"standing-{small}")
    rows = module.depot("rows", ROWS, partition_by="k", partitions=3)
    for name in names:
        options = {"topology.microbatch.small.max.records": small}
        mb = module.microbatch(name, vnode_count=16, options=options, columns="spark")
        sums, kept, moved = (
            mb.pstate(f"{name}_{each}", Map(int, int)) for each in ("sums", "kept", "moved")
        )
        source = mb.source(rows)
        if name == "columns":
            source = source.where("v > 2").select("id", "k", "v")
        source.aggregate(sums["k"], agg.sum("v"))
        source.process(passing, key="k", states=[kept], emits=ROWS).process(
            received, key="v", states=[moved]
        )
    return module


def records(count):
    """A plain function of the number, so that all runs append the same."""
    return [{"id": n, "k": n * 7919 % 23, "v": n % 11} for n in range(count)]


def expected(count, names=NAMES):
    """All states, by a plain fold."""
    state = {f"{name}_{each}": Counter() for name in names for each in ("sums", "kept", "moved")}
    for row in records(count):
        for name in names if row["v"] > 2 else names[:1]:
            state[f"{name}_sums"][row["k"]] += row["v"]
            state[f"{name}_kept"][row["k"]] += row["v"]
            state[f"{name}_moved"][row["v"]] += 1
    return state


class Running:
    """A module on a cluster, and how many records it has got."""

    def __init__(self, cluster, small, names=NAMES):
        self.cluster = cluster
        self.names = names
        self.app = cluster.deploy(build(small, names))
        self.count = 0

    def round(self, more=60):
        """Append, wait and check; by what each job ran."""
        self.app.depot("rows").append(records(self.count + more)[self.count :])
        self.count += more
        ways = {}
        for name in self.app.topologies():
            topology = self.app.topology(name)
            topology.wait_processed(self.count, timeout_seconds=WAIT_SECONDS)
            ways[name] = topology.status()["jobs"]
        found = {
            name: dict(self.app.pstate(name).select(path.all())) for name in expected(0, self.names)
        }
        assert found == expected(self.count, self.names)
        return ways

    def settled(self):
        """By what the jobs run once all are warm: a job that waits long for another goes aside."""
        ways = self.round()
        for _ in range(ROUNDS_MAX):
            if "spark" not in str(ways):
                break
            ways = self.round()
        return ways

    def scale(self, units):
        """Run all topologies on so many units."""
        for name in self.app.topologies():
            self.app.cluster.set_parallelism(name, str(units), timeout_seconds=WAIT_SECONDS)

    def gather(self):
        """Run all fragments on unit 0: one unit for each need not be the same for all."""
        info = self.app.cluster.info()
        changes = {
            each.id: UnitChange((0,), tuple(u for u in each.units if u != 0))
            for each in info.fragments
            if each.units != (0,)
        }
        if changes:
            self.app.cluster.reschedule(
                changes, revision=info.revision, resolve=True, timeout_seconds=WAIT_SECONDS
            )


@pytest.fixture(scope="module")
def session():
    """The process's session, where nobody else's tasks stand."""
    from atoll.spark.session import local_session

    made = local_session(2)
    before = modules._known.pop(made.sparkContext, None)
    if before is not None:
        before.close()
    return made


@pytest.fixture(scope="module")
def cluster(session, tmp_path_factory):
    """Five units, of which a session with fewer slots lets several share a post."""
    with LocalCluster(tmp_path_factory.mktemp("standing") / "root", parallelism=5) as made:
        yield made


@pytest.fixture(scope="module", params=[20_000, 0], ids=["direct", "packed"])
def running(cluster, request):
    """A module whose records every actor reads for itself, or gets packed."""
    return Running(cluster, request.param)


def stand(session, units):
    """Return when the tasks of so many units stand; their processes."""
    standing = standing_tasks(session, seated=False)

    def all_stand():
        most = min(units, standing._slots.posts.get(HERE, units))
        return len(standing.processes()) == len(standing._posts) >= most

    until(all_stand, "standing tasks")
    return standing.processes()


@pytest.mark.parametrize("units", [1, 2, 5])
def test_jobs_run_on_standing_tasks(session, running, units):
    """All of a topology without column steps; of the other one the actors, and the later job."""
    running.scale(units)
    stand(session, units)
    ways = running.settled()
    assert ways == {"plain": ["standing", "standing"], "columns": ["mixed", "standing"]}


def test_a_backlog_is_read_ahead(session, running):
    """The tasks have read what the next microbatch asks for; the state is what it is without."""
    running.scale(2)
    stand(session, 2)
    options = {"topology.microbatch.pipeline": 1, "depot.microbatch.max.records": 20}
    for name, value in options.items():
        running.app.options.set(name, value)
    plain = running.app.topology("plain")
    running.round(more=240)
    told = plain.status()
    assert 0 < told["read_ahead"]["used"] <= told["read_ahead"]["begun"]
    assert running.app.topology("columns").status()["read_ahead"]["used"] == 0
    for name in options:
        running.app.options.unset(name)


def test_column_steps_run_once_though_no_task_takes_what_they_made(session, running, monkeypatch):
    """Others keep a post longer than an attempt waits: ordinary tasks take what Spark packed."""
    running.scale(2)
    stand(session, 2)
    assert running.settled()["columns"] == ["mixed", "standing"]
    ran = []

    def counted(name):
        whole = getattr(JobFrames, name)

        def frame(frames):
            if column_origins(frames.job):
                ran.append(name)
            return whole(frames)

        monkeypatch.setattr(JobFrames, name, frame)

    counted("packed")
    counted("exchanged")
    post = next(iter(standing_tasks(session, seated=False)._posts.values()))
    assert post.turn.take(LONG)
    try:
        assert running.round()["columns"] == ["spark", "spark"]
    finally:
        post.turn.give_back()
    status = running.app.topology("columns").status()
    assert status["attempts_failed_total"] == {}
    assert ran == ["packed"]


def test_a_program_that_cannot_be_pickled_is_pickled_again(session, running, monkeypatch):
    """An attempt that fails while it goes to another placement leaves nothing half done."""
    running.scale(2)
    loop = running.app._loops["plain"]
    executor = loop.actions.executor
    program, shipped = executor.program, executor.shipped
    later = program.placement.revision + 1
    other = msgspec.structs.replace(program.placement, revision=later)

    def refuse(*_):
        raise ValueError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(executors, "ship", refuse)
        with pytest.raises(ValueError, match="not now"):
            executor._place(other)
    assert (executor.program, executor.shipped) == (program, shipped)
    executor._place(other)
    assert executor.program.placement == other
    assert executor.shipped.load().placement == other


def test_others_find_slots_beside_them(session, running):
    """A DataFrame, and a job of many more tasks than there are slots."""
    before = stand(session, 1)
    rows = running.app.dataframe("plain_sums").collect()
    assert {row.key: row.value for row in rows} == expected(running.count)["plain_sums"]
    assert session.range(0, 1000, 1, 12).count() == 1000
    assert standing_tasks(session, seated=False).processes().items() <= before.items()


def test_units_that_only_read_have_posts_too(session, tmp_path):
    """A PState of one vnode has one owner, while three units read."""
    module = atoll.Module("narrow")
    rows = module.depot("rows", "k long, v long", partitions=4)
    mb = module.microbatch(
        "mb", vnode_count=1, options={"topology.microbatch.small.max.records": 0}
    )
    mb.source(rows).aggregate(mb.pstate("sums", Map(int, int))["k"], agg.sum("v"))
    with LocalCluster(tmp_path / "root", parallelism=3) as cluster:
        app = cluster.deploy(module)
        topology = app.topology("mb")
        stand(session, 3)
        for number in range(1, 4):
            topology.pause()
            app.depot("rows").append([{"k": v % 7, "v": 1} for v in range(20_000)])
            topology.resume()
            topology.wait_processed(20_000 * number)
        status = topology.status()
        assert status["jobs"] == ["standing"]
        assert status["attempts_failed_total"] == {}
        assert sum(dict(app.pstate("sums").select(path.all())).values()) == 60_000


def test_two_clusters_share_the_posts(session, running, tmp_path):
    """Nothing is started for the second one that the first one has."""
    running.scale(2)
    before = stand(session, 2)
    with LocalCluster(tmp_path / "root", parallelism=2) as other:
        second = Running(other, 0)
        for _ in range(2):
            assert second.settled()["plain"] == ["standing", "standing"]
            assert running.settled()["plain"] == ["standing", "standing"]
        now = standing_tasks(session, seated=False).processes()
        assert now.items() <= before.items(), "others may have ended meanwhile"
        assert {"post 0", "post 1"} <= now.keys()


def test_posts_come_and_go_with_the_units(session, running, monkeypatch):
    """What nobody wants any more ends after a while, and its process's Spark task with it."""
    standing = standing_tasks(session, seated=False)
    running.scale(5)
    most = stand(session, 5)
    assert len(most) > 1
    monkeypatch.setattr(modules, "_UNWANTED_SECONDS", 0.1)
    for each in (running, *others(running)):
        each.scale(1)
        each.gather()
    gc.collect()
    until(lambda: set(standing.processes()) < set(most), "the end of the others")
    until(lambda: tasks_of(session) == len(standing.processes()), "the end of their Spark tasks")
    assert running.settled()["plain"] == ["standing", "standing"]
    monkeypatch.undo()
    running.scale(2)
    assert {"post 0", "post 1"} <= set(stand(session, 2))
    assert running.settled()["plain"] == ["standing", "standing"]


def test_units_that_come_while_it_runs_are_served_by_standing_tasks(session, running):
    """A service's own units: the processes that stand serve them too, and more where cores are."""
    local = running.cluster
    running.scale(2)
    before = stand(session, 2)
    local.set_units(7)
    try:
        running.app.cluster.set_parallelism("plain", "7")
        assert len(running.app.cluster.info().roots("plain")[0].units) == 7
        assert before.items() <= stand(session, 7).items()
        assert running.settled()["plain"] == ["standing", "standing"]
    finally:
        local.set_units(5)
    assert running.settled()["plain"] == ["standing", "standing"]


def others(running):
    """The modules that run beside it."""
    found = []
    for app in running.cluster.apps.values():
        if app is not running.app:
            other = Running.__new__(Running)
            other.cluster, other.app = running.cluster, app
            found.append(other)
    return found


def tasks_of(session):
    """How many tasks Spark runs."""
    tracker = session.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    return sum(info.numActiveTasks for info in infos if info is not None)


def test_all_are_let_go_at_the_end(session, tmp_path):
    """Then attempts run as ordinary Spark jobs, in this life of the process."""
    others = modules._known.pop(session.sparkContext, None)
    standing = standing_tasks(session, seated=False)
    try:
        with LocalCluster(tmp_path / "root", parallelism=1) as cluster:
            running = Running(cluster, 0, ["plain"])
            stand(session, 1)
            assert running.round() == {"plain": ["standing", "standing"]}
            post, folder = standing._posts[HERE, 0], Path(standing._address).parent
            standing.close()
            assert standing.processes() == {}
            assert post.await_end(0), "its Spark job is over"
            assert not folder.exists()
            assert running.round() == {"plain": ["spark", "spark"]}
    finally:
        standing.close()
        modules._known.pop(session.sparkContext, None)
        if others is not None:
            modules._known[session.sparkContext] = others


@pytest.mark.slow
def test_a_session_with_one_slot():
    """Tasks stand while nobody else wants it; for a DataFrame or a column step they make room."""
    script = Path(__file__).with_name("one_slot_child.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == [
        "plain standing",
        "rows 5",
        "stand 0",
        *["columns spark", "plain spark"] * 2,
    ]
