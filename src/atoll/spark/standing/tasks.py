"""All standing tasks of a Spark session: whoever runs attempts in this process shares them.

One set for all topologies, with a post for each parallel unit of a host: a set for each topology
would take as many processes again, most of them idle at any time, and more of Spark's slots than
a cluster has. A topology that finds the posts taken runs its job as an ordinary Spark job beside
them, so none waits long for another.

Spark's slots: a standing task holds one for as long as it stands. In local mode a session that
Atoll starts has as many slots again as units, so ordinary jobs always find some; of a session
with fewer, one is left free. On a cluster each unit of a worker has a post, up to the worker's
slots; where that takes all slots, the tasks go when an ordinary job waits for one, and come back
when none has run for a while. Attempts are ordinary jobs then.

Who may come is decided by a secret that only the Spark tasks carry (:mod:`.wire`). On one host
they come over a socket in a folder that is the user's own, else over TCP to the driver's host, at
the port of ``spark.atoll.standing.port`` (any free one by default).
"""

from __future__ import annotations

import contextlib
import math
import secrets
import shutil
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.errors import UsageError
from atoll.logs import get_logger
from atoll.spark.folders import claim_folder
from atoll.spark.frames.seats import Seats
from atoll.spark.jobs.stages import stages_of
from atoll.spark.jvm.lives import lives
from atoll.spark.members import members
from atoll.spark.standing.messages import Hello
from atoll.spark.standing.post import Post, PostKey
from atoll.spark.standing.slots import HERE, Slots, posts_told
from atoll.spark.standing.task import Address, StandingTask
from atoll.spark.standing.wire import ImpostorError, Wire, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from atoll.placement.placement import Placement


_log = get_logger("atoll.spark")

PORT_SETTING = "spark.atoll.standing.port"
"""At which port of the driver's host tasks on other hosts come; 0 is any free one."""

_LOOK_SECONDS = 0.25
_UNWANTED_SECONDS = 60.0
"""So long a post that no topology wants is kept: another version may want it again."""

_AWAY_SECONDS = 30.0
"""So long after the last ordinary job the tasks stay away that had to make room for one."""

_TOLD_SECONDS_MAX = 2.0
"""Spark's status tells of a task a little after it has begun."""

_TRIALS_MAX = 10
_END_SECONDS_MAX = 10.0
_SLOTS_SECONDS = 1.0
_BEGUN_SECONDS = 0.01
_HELLOS_MAX = 64
"""So many connections may be proving themselves at once."""


class StandingTasks:
    """The standing tasks of a session. Safe to share between threads.

    Args:
        session: Where they run.
        seated: Whether a unit's tasks want to run on its host: on a cluster.
    """

    def __init__(self, session: SparkSession, *, seated: bool) -> None:
        self.session = session
        self.seated = seated
        self._secret = secrets.token_bytes(32)
        self._seats = Seats(session, fixed=seated)
        self._folder: Path | None = None
        self._listener: socket.socket | None = None
        self._address: Address = ""
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._posts: dict[PostKey, Post] = {}
        self._wanted: weakref.WeakKeyDictionary[Any, Placement] = weakref.WeakKeyDictionary()
        self._unwanted_since: dict[PostKey, float] = {}
        self._slots = Slots()
        self._slots_known_until = 0.0
        self._away_until = 0.0
        self._waiting: set[int] = set()
        self._hellos = threading.Semaphore(_HELLOS_MAX)

    def want(self, owner: object, placement: Placement) -> None:
        """Have posts manned for the units of a placement, as long as the owner lives.

        Returns at once; an owner wants one placement at a time.
        """
        with self._lock:
            if self._wanted.get(owner) is placement:
                return
            self._wanted[owner] = placement
            if self._listener is None:
                self._listen()
        self._changed.set()

    def posts(self, placement: Placement) -> dict[int, Post] | None:
        """The post of each unit that reads or runs an actor, when all are manned; else None."""
        found: dict[int, Post] = {}
        for unit, key in self._keys(placement).items():
            post = self._posts.get(key)
            if post is None or not (post.manned or post.returning):
                return None
            found[unit] = post
        return found or None

    def await_posts(self, placement: Placement, seconds_max: float) -> dict[int, Post] | None:
        """The post of each unit, as soon as all are manned.

        None when that takes longer, and when a task has ended without a word: another one follows,
        but may do no better.
        """
        until = time.monotonic() + seconds_max
        while (found := self.posts(placement)) is None:
            left = until - time.monotonic()
            if left <= 0 or self._ended.is_set() or self._away_until > time.monotonic():
                return None
            posts = [self._posts.get(key) for key in self._keys(placement).values()]
            missing = [each for each in posts if each is not None and not each.manned]
            if any(each.lost for each in missing):
                return None
            if missing:
                missing[0].await_ready(min(left, _LOOK_SECONDS))
            else:
                self._ended.wait(min(left, _BEGUN_SECONDS))
        return found

    def ordinary_job(self) -> None:
        """A job that needs Spark is about to run for a topology: it finds a slot, or makes room."""
        if self.is_full or self._away_until > time.monotonic():
            self._make_room()

    @property
    def is_full(self) -> bool:
        """Whether the tasks that stand leave no slot to ordinary jobs."""
        return 0 < self._slots.total <= len(self._posts)

    def processes(self) -> dict[str, int]:
        """The processes of the tasks that stand, by post."""
        return {str(each): each.pid for each in list(self._posts.values()) if each.manned}

    def close(self) -> None:
        """Let all tasks go, and wait until they are gone."""
        self._ended.set()
        self._changed.set()
        posts = list(self._posts.values())
        for post in posts:
            post.end()
        until = time.monotonic() + _END_SECONDS_MAX
        for post in posts:
            post.await_end(until - time.monotonic())
        if self._listener is not None:
            with contextlib.suppress(OSError):  # which lets the thread go that waits there
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # Who comes ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        posts_told(self.session)  # refused here, where somebody waits for it
        folder = None if self.seated else claim_folder("standing")
        if folder is not None:
            self._folder = folder
            self._listener = socket.socket(socket.AF_UNIX)
            self._address = str(folder / "driver")
            self._listener.bind(self._address)
        else:
            conf = self.session.sparkContext.getConf()
            host = conf.get("spark.driver.host", "127.0.0.1") or "127.0.0.1"
            bound = conf.get("spark.driver.bindAddress", host) or host
            self._listener = _bound(bound, conf.get(PORT_SETTING, "0") or "0")
            self._address = (host, self._listener.getsockname()[1])
        self._listener.listen(_HELLOS_MAX)
        for name, run in (("come", self._accept), ("watch", self._watch)):
            threading.Thread(target=run, name=f"atoll-standing-{name}", daemon=True).start()

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._ended.is_set():
            try:
                connected, _ = self._listener.accept()
            except OSError:  # closed; or too many files are open, or it was gone before it came
                self._ended.wait(_BEGUN_SECONDS)
                continue
            if not self._hellos.acquire(blocking=False):
                connected.close()  # a task tries again; of others there are too many
                continue
            greeting = threading.Thread(target=self._greet, args=(Wire(connected),), daemon=True)
            greeting.start()

    def _greet(self, wire: Wire) -> None:
        """Let a task in that proves itself and is awaited."""
        try:
            hello = msgspec.msgpack.decode(verify(wire, self._secret), type=Hello)
            post = self._posts.get((hello.host, hello.number))
            if post is not None and post.admit(hello, wire):
                return
        except ImpostorError as error:
            _log.warning("a connection for standing tasks was refused", why=str(error))
        except (OSError, EOFError, msgspec.DecodeError):
            pass  # it let go, or is no task of this version
        finally:
            self._hellos.release()
        wire.sever()

    # Who is wanted --------------------------------------------------------------------------------

    def _keys(self, placement: Placement) -> dict[int, PostKey]:
        """The post of each unit: a worker's units in turn, on as many posts as it has."""
        found: dict[int, PostKey] = {}
        ranks: dict[str, int] = {}
        for unit in sorted({*placement.units, *placement.source}):
            worker = placement.workers[unit] if self.seated else HERE
            rank = ranks.get(worker, 0)
            ranks[worker] = rank + 1
            most = self._slots.posts.get(worker, 0)
            if not most:
                return {}  # not known yet, or gone
            found[unit] = (worker, rank % most)
        return found

    def _watch(self) -> None:
        """Begin posts that are wanted, end those that are not, make room for those who wait."""
        while not self._ended.is_set():
            self._changed.wait(_LOOK_SECONDS)
            self._changed.clear()
            if lives.is_dead(self.session):
                self.close()
                _forget(self)
                return
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - Spark may be ending; else it works again soon
                _log.warning("standing tasks were not looked after", error=str(error))
                self._ended.wait(_LOOK_SECONDS)

    def _look(self) -> None:
        now = time.monotonic()
        if self._ended.is_set():
            return
        if self.is_full and self._waits_in_vain():
            self._make_room()
        if self._away_until > now:
            return
        with self._lock:
            placements = list(self._wanted.values())
        if now > self._slots_known_until or any(not self._keys(each) for each in placements):
            self._slots = Slots.of(self.session, seated=self.seated)
            self._slots_known_until = now + (_SLOTS_SECONDS if self.seated else math.inf)
        wanted = {key for each in placements for key in self._keys(each).values()}
        for key in sorted(wanted - self._posts.keys()):
            self._begin(key)
        for key in list(self._posts):
            if key in wanted:
                self._unwanted_since.pop(key, None)
            elif now - self._unwanted_since.setdefault(key, now) > _UNWANTED_SECONDS:
                self._unwanted_since.pop(key)
                self._retire([self._posts.pop(key)])

    def _begin(self, key: PostKey) -> None:
        worker, number = key
        post = Post(
            key,
            self.session,
            lambda: self._seats.tasks([0], {0: worker}),
            lambda life: StandingTask(self._address, self._secret, worker, number, life),
            self._is_at,
        )
        post.begin()
        self._posts[key] = post

    def _is_at(self, tag: str, worker: str) -> bool:
        """Whether the running job of a tag runs on a worker, as far as Spark tells."""
        if not self.seated:
            return True
        context: Any = self.session.sparkContext
        store = context._jsc.sc().statusStore()  # noqa: SLF001 - Python's tracker has no tasks
        until = time.monotonic() + _TOLD_SECONDS_MAX
        while time.monotonic() < until:
            for stage in stages_of(context, tag):
                tasks = store.taskList(stage, 0, _TRIALS_MAX)
                found = {tasks.apply(at).executorId() for at in range(tasks.size())}
                if found:
                    known = members(self.session).get(worker)
                    return known is not None and not found.isdisjoint(known.executors)
            time.sleep(_BEGUN_SECONDS)
        return False

    # Spark's slots --------------------------------------------------------------------------------

    def _waits_in_vain(self) -> bool:
        """Whether an ordinary job waits while there is no slot for it, now and a look ago.

        By its stages alone: of how many tasks a stage runs Spark's status tells seconds late.
        """
        tracker = self.session.sparkContext.statusTracker()
        own = {each for post in list(self._posts.values()) for each in post.stages()}
        waiting = set(tracker.getActiveStageIds()) - own
        vain = bool(waiting & self._waiting)
        self._waiting = waiting
        return vain

    def _make_room(self) -> None:
        """Let all tasks go, and nobody come for a while; jobs that run on them end first."""
        self._away_until = time.monotonic() + _AWAY_SECONDS
        posts, self._posts = list(self._posts.values()), {}
        if posts:
            _log.info("standing tasks make room for an ordinary job", posts=len(posts))
        self._retire(posts)

    def _retire(self, posts: Sequence[Post]) -> None:
        for post in posts:
            threading.Thread(target=post.retire, name="atoll-post-retires", daemon=True).start()


def _bound(host: str, port: str) -> socket.socket:
    try:
        return socket.create_server((host, int(port)))
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(
            f"standing tasks cannot come to port {port!r} of {host}: {error}",
            hint=f"set {PORT_SETTING} to a free port or to 0, and spark.driver.bindAddress "
            "to an address of this host",
        ) from error


_lock = threading.Lock()
_known: weakref.WeakKeyDictionary[Any, StandingTasks] = weakref.WeakKeyDictionary()


def standing_tasks(session: SparkSession, *, seated: bool) -> StandingTasks:
    """The standing tasks of a session and of all that share its slots: always the same ones."""
    with _lock:
        found = _known.get(session.sparkContext)
        if found is None:
            found = _known[session.sparkContext] = StandingTasks(session, seated=seated)
        return found


def dismiss(session: SparkSession) -> None:
    """Let the standing tasks of a session go, if it has any: it is about to be stopped."""
    with _lock:
        found = _known.pop(session.sparkContext, None)
    if found is not None:
        found.close()


def _forget(ended: StandingTasks) -> None:
    """By itself: a context whose Spark is gone cannot be asked for anything, its key included."""
    with _lock:
        for context in [each for each, known in _known.items() if known is ended]:
            del _known[context]
