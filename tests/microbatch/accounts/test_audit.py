"""What the accounts of an attempt are held to: pure data in, a refusal or nothing out."""

from __future__ import annotations

import msgspec
import pytest

from atoll.errors import AccountsError
from atoll.microbatch.accounts.audit import audit, rows_by_step
from atoll.microbatch.accounts.entries import (
    PART_TASKS,
    REJECTS,
    STEP_TASKS,
    ActorAccounts,
    ChainChart,
    ChainRows,
    EndChart,
    JobChart,
    PackedRows,
    Parcel,
    RowsRead,
    StepChart,
    StepRows,
    TaskAccounts,
    Waybill,
)
from atoll.microbatch.accounts.faults import delivery_faults, read_faults
from atoll.microbatch.commits.objects import GENESIS, Commit, decode_commit, encode
from atoll.microbatch.outcome import ActorFailure, JobOutcome, Manifest

ATTEMPT = (1, 7, 1, 0)
SOURCE, STEP, SUM = 0, 1, 2
CHART = JobChart(
    0,
    {SOURCE: "d"},
    (ChainChart(SOURCE, "source", True, (StepChart(STEP, "where", "at most one"),), (SUM,)),),
    (EndChart(SUM, "aggregate", "folded"),),
)
RANGES = {"d": [(0, 6), (4, 8)]}


def _told(task, reads, rows, packed):
    """What a task counted that kept some of its rows, and packed them for two units."""
    taken = rows[-1]
    made = sum(packed.values())
    return TaskAccounts(
        task,
        [RowsRead(SOURCE, part, start, end) for part, start, end in reads],
        [ChainRows(0, rows, [0])],
        [PackedRows(SUM, taken, 0, 0, made, packed)],
    )


def _manifest(unit, told, rows):
    counts = {SUM: rows} if rows else {}
    accounts = ActorAccounts(False, [0, 1], told, counts, counts, {})
    return Manifest(f"token-{unit}", unit, accounts=accounts)


def _sound():
    """Two tasks of six and four rows, of which two are dropped; three partial sums each."""
    one = _told(0, [("0", 0, 6)], [6, 5], {0: 2, 1: 1})
    other = _told(1, [("1", 4, 8)], [4, 3], {0: 3})
    return JobOutcome(0, [_manifest(0, [one], 5), _manifest(1, [other], 1)])


def _refusal(job, units=(0, 1), charts=(CHART,)):
    with pytest.raises(AccountsError) as caught:
        audit(charts, RANGES, units, [job])
    return caught.value


def test_what_adds_up_is_told_by_step():
    """The commit keeps rows in, rows out, and what was dropped."""
    job = _sound()
    audit([CHART], RANGES, [0, 1], [job])
    assert rows_by_step([CHART], [job]) == [
        StepRows("where", 10, 8, dropped=2),
        StepRows("aggregate", 8, 0),
    ]


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        ([("0", 0, 5)], "rows 5 to 6 were read by no task"),
        ([("0", 0, 4), ("0", 3, 6)], "rows 3 to 4 were read twice"),
        ([("0", 0, 6), ("0", 6, 7)], "rows 6 to 7 were read although not planned"),
        ([("0", 0, 6), ("2", 0, 1)], r"d\[2\] was read, which is not planned"),
        ([], "rows 0 to 6 were read by no task"),
    ],
)
def test_reads_cover_the_plan(reads, said):
    """Each offset once, whatever the sum of rows is."""
    job = _sound()
    other = job.manifests[1]
    told = _told(0, reads, [6, 5], {0: 2, 1: 1})
    error = _refusal(JobOutcome(0, [_manifest(0, [told], 5), other]))
    assert said.replace("\\", "") in error.message


def test_the_same_number_of_other_rows_is_refused():
    """Six rows were planned and six were read, two of them twice."""
    found = [RowsRead(SOURCE, "0", 0, 4), RowsRead(SOURCE, "0", 2, 4)]
    faults = list(read_faults({SOURCE: "d"}, [RowsRead(SOURCE, "0", 0, 6)], found))
    assert [str(each) for each in faults] == [
        "d[0], rows 2 to 4 were read twice (6 instead of 6)",
        "d[0], rows 4 to 6 were read by no task (6 instead of 6)",
    ]


def test_an_error_names_job_step_unit_and_counts():
    """In its context, for whoever shows it."""
    job = _sound()
    short = _manifest(0, job.manifests[0].accounts.told, 4)
    error = _refusal(JobOutcome(0, [short, job.manifests[1]]))
    assert error.code == "E-ACCOUNTS"
    assert error.context == {
        "job": "0",
        "step": "aggregate",
        "unit": "0",
        "expected": "5",
        "found": "4",
    }


@pytest.mark.parametrize("units", [[0], [0, 0], [0, 1, 1], [0, 2]])
def test_every_unit_reports_once(units):
    """None, or several reports of one, are refused."""
    job = _sound()
    manifests = [msgspec.structs.replace(job.manifests[0], unit=unit) for unit in units]
    assert "actors of the units" in _refusal(JobOutcome(0, manifests)).message


def test_a_job_may_stand_still_only_without_rows():
    """That nothing was to do is not for the executor to say."""
    assert "read by no task" in _refusal(JobOutcome(0, [])).message
    audit([CHART], {"d": [(6, 6), (8, 8)]}, [0, 1], [JobOutcome(0, [])])


def test_actors_that_read_for_themselves_agree():
    """Each counts all rows, and keeps those that all say are for its unit."""
    told = _told(0, [("0", 0, 6), ("1", 4, 8)], [10, 8], {0: 4, 1: 2})
    fewer = _told(0, [("0", 0, 6), ("1", 4, 7)], [9, 7], {0: 4, 1: 1})

    def manifest(unit, told, rows):
        counts = {SUM: rows}
        accounts = ActorAccounts(True, [0], [told], counts, counts, {})
        return Manifest(f"token-{unit}", unit, accounts=accounts)

    audit([CHART], RANGES, [0, 1], [JobOutcome(0, [manifest(0, told, 4), manifest(1, told, 2)])])
    for other in (manifest(1, fewer, 1), manifest(1, told, 1)):
        assert _refusal(JobOutcome(0, [manifest(0, told, 4), other])).context["unit"] == "1"


def test_rows_that_are_combined_become_no_more_and_never_none():
    """How many partial aggregates there are is not known, but their bounds are."""
    for made in ({0: 9}, {}):
        told = _told(0, [("0", 0, 6), ("1", 4, 8)], [10, 8], made)
        others = _manifest(1, [TaskAccounts(1)], 0)
        job = JobOutcome(0, [_manifest(0, [told], sum(made.values())), others])
        assert _refusal(job).context["step"] == "aggregate"


def _delivery(waybills, found, tasks):
    faults = delivery_faults(ATTEMPT, 0, tasks, waybills, found, {SUM: "aggregate"})
    return [str(each) for each in faults]


def _waybill(task, *parcels, attempt=ATTEMPT, unit=0):
    return Waybill(attempt, task, False, unit, list(parcels), {})


BLOB = Parcel(0, SUM, 100, 1)


def test_a_delivery_is_what_the_waybills_say():
    """Tasks behind column steps have numbers of their own; where they begin only Spark knows."""
    behind = [PART_TASKS + 3, PART_TASKS + 4]
    waybills = [_waybill(0, BLOB), _waybill(1), *map(_waybill, behind), _waybill(STEP_TASKS + 1)]
    assert _delivery(waybills, [BLOB], {0: 2, 1: 0}) == []
    assert _delivery(waybills[:-3] + waybills[-2:], [BLOB], {0: 2, 1: 0}) == []
    assert _delivery([*waybills, _waybill(PART_TASKS + 6)], [BLOB], {0: 2, 1: 0})
    assert _delivery(waybills, [BLOB], {0: 2}) == [
        "waybills came of unknown packing tasks [1048579, 1048580] on unit 0 (2 instead of 0)"
    ]


@pytest.mark.parametrize(
    ("waybills", "found"),
    [
        ([_waybill(0, BLOB), _waybill(1)], []),
        ([_waybill(0, BLOB), _waybill(1)], [BLOB, BLOB]),
        ([_waybill(0), _waybill(1)], [BLOB]),
        ([_waybill(0, BLOB)], [BLOB]),
        ([_waybill(0, BLOB), _waybill(0, BLOB), _waybill(1)], [BLOB, BLOB]),
        ([_waybill(0, BLOB), _waybill(1)], [Parcel(0, SUM, 100, 2)]),
        ([_waybill(0, BLOB), _waybill(1)], [Parcel(1, SUM, 100, 1)]),
        ([_waybill(0, BLOB), _waybill(1)], [Parcel(0, REJECTS, 100, 1)]),
        ([_waybill(0, BLOB, attempt=(1, 7, 2, 0)), _waybill(1)], [BLOB]),
        ([_waybill(0, BLOB, unit=1), _waybill(1)], [BLOB]),
        ([], []),
    ],
)
def test_a_delivery_that_differs_is_refused(waybills, found):
    """Fewer, more, others, of another attempt, for another unit."""
    assert _delivery(waybills, found, {0: 2})


def test_why_a_task_failed_is_told_before_what_it_did_not_pack():
    """An actor that got nothing says so; the failure of the packing task says why."""
    missing = Manifest("", -1, failure=ActorFailure("E-ACCOUNTS", "rows are missing"))
    why = Manifest("", -1, failure=ActorFailure("E-USER-CODE", "map raised"))
    assert JobOutcome(0, [missing, why]).failure == why.failure
    assert JobOutcome(0, [missing]).failure == missing.failure
    assert JobOutcome(0, []).failure is None


def test_commits_of_old_versions_are_read():
    """They say nothing of rows; and what new ones say of them is kept."""
    fields = msgspec.to_builtins(GENESIS)
    del fields["rows"]
    assert decode_commit(msgspec.msgpack.encode(fields)) == GENESIS
    told: Commit = msgspec.structs.replace(GENESIS, rows=[StepRows("map (a.py:1)", 3, 2, 0, 1)])
    assert decode_commit(encode(told)) == told
