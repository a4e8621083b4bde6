"""Runs attempts as Spark jobs: implements ``atoll.microbatch.executor.Executor``."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from atoll.engine.attempt import BlockSource, JobSpecs, bytes_of, has_work, row_bytes_of, rows_of
from atoll.engine.beside import Beside
from atoll.engine.exchange.ahead import is_foreseeable
from atoll.engine.exchange.waybills import column_origins
from atoll.engine.program import JobProgram, JobSpec, Program
from atoll.errors import SparkLostError
from atoll.microbatch.commits.objects import Commit, Plan
from atoll.microbatch.control.options import Options
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest, Outcome, Way
from atoll.microbatch.stragglers import Stragglers
from atoll.spark.frames.careful import CarefulFrames, Looking
from atoll.spark.frames.job import JobFrames
from atoll.spark.frames.seats import Seats
from atoll.spark.frames.tracking import Tracking
from atoll.spark.jobs.beating import TaskBeats
from atoll.spark.jobs.failures import is_broken
from atoll.spark.jobs.handing import handing
from atoll.spark.jobs.limit import JobLimit
from atoll.spark.jvm.lives import lives
from atoll.spark.shipping import ship
from atoll.spark.standing.jobs import NotReadyError, StandingJob, TaskLostError, warm
from atoll.spark.standing.tasks import standing_tasks
from atoll.spark.tasks import WarmTask
from atoll.topology.fragments import fragment_names
from atoll.topology.operator import Operator, RootOperator, StateOperator

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

    from atoll.placement.placement import Placement
    from atoll.spark.standing.post import Post
    from atoll.topology.graph import Graph
    from atoll.topology.jobs import Cut


_PREPARE_SECONDS_MAX = 30.0
_MANNED_SECONDS_MAX = 5.0
_FRAMES_MAX = 32
_WARMED_MAX = 8
"""Stores that a post opens in one turn, about a millisecond each, while attempts wait."""

_TRANSFER_BYTES_MAX = 16 * 1024 * 1024
"""As depots store them, which may be a quarter of what they take in memory, or less."""
_DIRECT_BYTES_MAX = 16 * 1024 * 1024
"""Few records may be fat, and without an exchange each actor reads all of them."""

_TRANSFER = "spark.sql.execution.arrow.maxRecordsPerBatch"


class SparkExecutor:
    """One topology on Spark, in whatever life of it.

    Args:
        sessions: Gives the session whose jobs run the topology: another one when the JVM of the
            one before has died.
        program: The topology, bound.
        graph: The topology, as declared.
        cut: Its jobs.
        schemas: The columns after each operator.
        depots: The depots that it reads, by name.
        options: What attempts are run with until others are told.
        seated: Whether tasks want to run on the host of their unit: on a cluster.
        careful: Whether its attempts find the records that cannot be processed.
    """

    def __init__(  # noqa: PLR0913  # injected once, by the deployment
        self,
        sessions: Callable[[], SparkSession],
        program: Program,
        graph: Graph,
        cut: Cut,
        schemas: Mapping[Operator, pa.Schema],
        depots: Mapping[str, BlockSource],
        options: Options,
        *,
        seated: bool = False,
        careful: bool = False,
    ) -> None:
        self._sessions = sessions
        self.careful = careful
        self._carefully: SparkExecutor | None = None
        self._told: set[tuple[int, int]] = set()
        self.program = program
        self.graph = graph
        self.cut = cut
        self.depots = depots
        self.specs = JobSpecs(program, cut, depots, options, careful=careful)
        self.operators = self.specs.operators
        self._fragments = {
            cut.number[step]: name for step, name in fragment_names(cut.number).items()
        }
        self.schemas = schemas
        self.shipped = ship(program, graph)
        self.frames: OrderedDict[tuple[int, int], JobFrames] = OrderedDict()
        self.seated = seated
        self._manned: Placement | None = None
        self._live_on(sessions())
        self.limit: JobLimit | None = None
        self.preparing: JobLimit | None = None
        self.reading: JobLimit | None = None
        self._ahead = Beside(f"atoll-ahead-{program.topology}")
        self.plain = {job.index: self._is_plain(job) for job in program.jobs}

    def run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run the jobs one after the other; each needs to know what the earlier ones wrote.

        Raises:
            AttemptError: When a task failed, an executor was lost or the time was over.
        """
        with self._noticing_death():
            return self._run(plan, epoch, version, placement, timeout_seconds)

    def _run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        self._ahead.end()
        session = self._sessions()
        if session is not self.session:
            self._live_on(session)
        self._place(placement)
        self._man(placement)
        self._told.clear()
        done: list[JobOutcome] = []
        with self._limited(timeout_seconds) as limit:
            for job in self.program.jobs:
                spec = self.specs.spec(plan, epoch, version, job, done)
                if not has_work(job, spec):
                    done.append(JobOutcome(job.index, []))
                    continue
                outcome = self._ran(limit, job, spec)
                if outcome.failure is not None:
                    raise AttemptError(outcome.failure)
                done.append(outcome)
        return Outcome(done)

    def run_carefully(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run the jobs with guards before their column steps; all rows say where they are from.

        Raises:
            AttemptError: As :meth:`run`.
        """
        if self._carefully is None:
            self._carefully = SparkExecutor(
                self._sessions,
                self.program.tracking(self.operators),
                self.graph,
                self.cut,
                self.schemas,
                self.depots,
                self.specs.options,
                seated=self.seated,
                careful=True,
            )
        self._carefully.tune(self.specs.options)
        self._ahead.end()
        return self._carefully.run(plan, epoch, version, placement, timeout_seconds)

    def prepare(self, placement: Placement, commit: Commit) -> None:
        """Let the workers unpack the program and bring the stores up to date that they will own.

        Raises:
            AttemptError: When a task failed or it took long.
        """
        program = self.program.placed(placement)
        shipped = ship(program, self.graph)
        self.standing.want(self, placement)
        limit = self.preparing = JobLimit(self.session, _PREPARE_SECONDS_MAX)
        try:
            posts = self.standing.await_posts(placement, _MANNED_SECONDS_MAX)
            if posts is None or not self.standing.is_full:
                # beside the standing tasks, which go on with attempts meanwhile
                task = WarmTask(shipped, commit.id, commit.timeline)
                tasks = self.seats.tasks(program.units, placement.workers)
                limit.collect(tasks.mapInArrow(task, "unit int"))
            if posts is not None:
                # what is up to date is not open yet in the processes that will use it
                with contextlib.suppress(NotReadyError):
                    mine = {unit: posts[unit] for unit in program.units}
                    warm(mine, shipped, commit, limit, _shares(program, mine))
        finally:
            self.preparing = None
            limit.end()

    def stand_by(self, placement: Placement) -> None:
        """Have tasks stand where the first attempt will run; returns at once."""
        self.standing.want(self, placement)

    def tune(self, options: Options) -> None:
        """Run with these options."""
        self.specs.options = options

    def read_ahead(self, plan: Plan) -> None:
        """Let standing tasks do it; ordinary Spark jobs never read ahead."""
        posts = self.standing.posts(self.program.placement)
        if posts is not None and not column_origins(self.program.jobs[0]):
            seconds = float(self.specs.options.phase_timeout_seconds)
            self.reading = JobLimit(self.session, seconds, self._stragglers())
            self._ahead.begin(lambda: self._read_ahead(plan, posts))

    def end_reading_ahead(self) -> None:
        """Wait for the thread that asks them."""
        self._ahead.end()

    def cancel(self) -> None:
        """End the running attempt's job; whoever takes over need not wait for its tasks."""
        for limit in (self.limit, self.preparing, self.reading):
            if limit is not None:
                limit.cancel()
        if self._carefully is not None:
            self._carefully.cancel()

    def forget(self, microbatch: int) -> None:
        """Drop the rows staged by attempts at a microbatch."""
        self.specs.forget(microbatch)

    # Inside ---------------------------------------------------------------------------------------

    def _live_on(self, session: SparkSession) -> None:
        """Run on this session; what was built for the one before died with it."""
        self.frames.clear()
        self._manned = None
        tracked = {self.operators[number] for number in self.program.tracked}
        self.columns = Tracking(session, tracked, self.schemas)
        self.seats = Seats(session, fixed=self.seated)
        self.standing = standing_tasks(session, seated=self.seated)
        self.session = session

    def _read_ahead(self, plan: Plan, posts: Mapping[int, Post]) -> None:
        limit, job = self.reading, self.program.jobs[0]
        assert limit is not None
        spec = self.specs.spec(plan, plan.epoch, 0, job, [])
        if rows_of(spec) and is_foreseeable(self.program, spec):
            standing = StandingJob(posts, self.program, self.shipped, spec, limit)
            with contextlib.suppress(NotReadyError):
                standing.read_ahead(direct=self._is_direct(job, spec))

    @contextlib.contextmanager
    def _noticing_death(self) -> Iterator[None]:
        """Say of whatever fails when the JVM has died that this is why.

        Raises:
            AttemptError: Then; the next attempt runs on another session.
        """
        try:
            yield
        except SparkLostError:
            raise
        except Exception as error:
            # a standing task ends with its JVM, but mostly without
            broken = is_broken(error) and not isinstance(error, TaskLostError)
            if not lives.is_dead(self.session, broken=broken):
                raise
            hint = "it is started anew for the next attempt; look at the machine's memory"
            failure = ActorFailure(
                SparkLostError.code, "the JVM of Spark died while the attempt ran", hint
            )
            raise AttemptError(failure) from error

    def _place(self, placement: Placement) -> None:
        """Pickle the program anew when it runs elsewhere."""
        if placement == self.program.placement:
            return
        program = self.program.placed(placement)
        self.shipped = ship(program, self.graph)
        self.frames.clear()  # those built so far run an old one
        self.program = program
        self.specs = JobSpecs(
            program, self.cut, self.depots, self.specs.options, careful=self.careful
        )

    def _man(self, placement: Placement) -> None:
        """Want tasks to stand for a placement; the first attempt there waits until they do.

        They begin sooner than an ordinary Spark job beside them would.
        """
        self.standing.want(self, placement)
        if self._manned is not placement:
            self._manned = placement
            self.standing.await_posts(placement, _MANNED_SECONDS_MAX)

    def _ran(self, limit: JobLimit, job: JobProgram, spec: JobSpec) -> JobOutcome:
        """Run a job on standing tasks if they are ready, else as an ordinary Spark job.

        Column steps are Spark's; what they packed goes to actors of either kind.
        """
        columns = bool(column_origins(job))
        posts = self.standing.posts(self.program.placement)
        if posts is None or (columns and self.standing.is_full):
            return JobOutcome(job.index, self._collected(limit, job, spec), Way.SPARK)
        standing = StandingJob(posts, self.program, self.shipped, spec, limit)
        if columns:
            return self._mixed(limit, job, spec, standing)
        try:
            direct = self._is_direct(job, spec)
            manifests = standing.direct() if direct else standing.packed()
            return JobOutcome(job.index, manifests, Way.STANDING, standing.ahead)
        except NotReadyError:
            return JobOutcome(job.index, self._collected(limit, job, spec), Way.SPARK)

    def _mixed(
        self, limit: JobLimit, job: JobProgram, spec: JobSpec, standing: StandingJob
    ) -> JobOutcome:
        """Let Spark run the column steps, once, and actors take what it packed."""
        with self._framed(limit, job, spec) as frames:
            blobs = _blobs(limit.collect(frames.packed()))
            by_unit: dict[int, list[bytes]] = {}
            for actor, blob in blobs:
                by_unit.setdefault(self.program.units[actor], []).append(blob)
            try:
                return JobOutcome(job.index, standing.handed(by_unit), Way.MIXED)
            except NotReadyError:
                manifests = limit.manifests(frames.handed(blobs))
                return JobOutcome(job.index, manifests, Way.SPARK)

    def _collected(self, limit: JobLimit, job: JobProgram, spec: JobSpec) -> list[Manifest]:
        with self._framed(limit, job, spec) as frames:
            if self._is_direct(job, spec):
                return limit.manifests(frames.direct())
            if not self.seats.fixed:
                return limit.manifests(frames.exchanged())
            return limit.manifests(frames.handed(_blobs(limit.collect(frames.packed()))))

    @contextlib.contextmanager
    def _framed(self, limit: JobLimit, job: JobProgram, spec: JobSpec) -> Iterator[JobFrames]:
        """The job's frames, which find the spec beside them."""
        if column_origins(job):  # another one is only here because no tasks stand
            self.standing.ordinary_job()
        frames = self._frames_of(job, len(spec.splits))
        limit.beats = TaskBeats(self.program, spec)
        if isinstance(frames, CarefulFrames):
            frames.looking = Looking(self.program, spec, limit.collect, self._told)
        self.session.conf.set(_TRANSFER, str(self._transfer_rows(spec)))
        try:
            with handing(self.session, self.program, spec):
                yield frames
        finally:
            if not frames.lasting:
                frames.release()
                del self.frames[job.index, len(spec.splits)]

    def _transfer_rows(self, spec: JobSpec) -> int:
        """How many rows Spark may move at once: fewer, where rows are long."""
        fitting = _TRANSFER_BYTES_MAX / max(1.0, row_bytes_of(spec))
        return max(1, min(self.specs.options.spark_batch_rows_max, int(fitting)))

    def _frames_of(self, job: JobProgram, reading_tasks: int) -> JobFrames:
        """The job's frames, built by the first microbatch that has so many reading tasks."""
        key = job.index, reading_tasks
        if key not in self.frames:
            kind = CarefulFrames if self.careful else JobFrames
            self.frames[key] = kind(
                self.seats,
                self.program.placement,
                self.shipped,
                job,
                reading_tasks,
                self.operators,
                self.columns,
            )
            while len(self.frames) > _FRAMES_MAX:
                self.frames.popitem(last=False)
        self.frames.move_to_end(key)
        return self.frames[key]

    def _is_plain(self, job: JobProgram) -> bool:
        """Whether nothing of the user's stands between what the job reads and its state steps.

        Without an exchange every actor would run such a step over all rows, where the user
        expects it once per row.
        """
        return all(
            all(step.runs_own_code for step in chain.steps)
            and isinstance(self.operators[chain.origin], RootOperator | StateOperator)
            for chain in job.chains
        )

    def _is_direct(self, job: JobProgram, spec: JobSpec) -> bool:
        """Whether the job may do without an exchange: few rows, and no step of the user's."""
        rows = rows_of(spec)
        plain = self.plain[job.index]
        if rows == 0:
            return plain or not job.fires
        few = rows <= self.specs.options.small_records_max
        return plain and few and bytes_of(spec) <= _DIRECT_BYTES_MAX

    def _stragglers(self) -> Stragglers:
        limit = float(self.specs.options.silence_seconds)
        return Stragglers(self.program.topology, limit, self._fragments)

    @contextlib.contextmanager
    def _limited(self, timeout_seconds: float) -> Iterator[JobLimit]:
        limit = JobLimit(self.session, timeout_seconds, self._stragglers())
        self.limit = limit
        try:
            yield limit
        finally:
            self.limit = None
            limit.end()


def _blobs(rows: Sequence[Row]) -> list[tuple[int, bytes]]:
    """What Spark packed, each with the number of its actor."""
    return [(row[0], bytes(row[1])) for row in rows]


def _shares(program: Program, posts: Mapping[int, Post]) -> int:
    """In how many turns the posts open their stores, so that none takes long."""
    stores: Counter[Post] = Counter()
    for unit, post in posts.items():
        stores[post] += sum(len(program.owned(name, unit)) for name in program.pstates)
    return max(1, math.ceil(max(stores.values(), default=0) / _WARMED_MAX))
