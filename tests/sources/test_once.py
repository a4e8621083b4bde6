"""What a function gives is stored one time."""

import pyarrow as pa
import pytest
from feeding import drained, fed, values

import atoll
from atoll.errors import DeclarationError
from atoll.sources import Once, SourceError


def test_rows_are_stored_once_over_lives(tmp_path):
    """The function is called again only while nothing is stored."""
    calls = []

    def rows():
        calls.append(len(calls))
        yield {"v": len(calls)}
        if len(calls) == 1:
            raise ConnectionError("gone")
        yield {"v": 10}

    with fed(tmp_path, Once("a", rows)) as (feeder, depot, _):
        with pytest.raises(SourceError, match="failed: ConnectionError: gone"):
            feeder.turn()
        assert depot.end_offsets() == (0,)
    for _ in range(2):
        with fed(tmp_path, Once("a", rows)) as (feeder, depot, _):
            drained(feeder)
            assert values(depot) == [2, 10]
    assert len(calls) == 2
    table = pa.table({"v": [7]})
    with fed(tmp_path, Once("b", lambda: table)) as (feeder, depot, _):
        assert drained(feeder) == (1, 0)
        assert feeder.lag().waiting == 0
        assert values(depot) == [2, 10, 7]


def test_the_source_ends_and_says_so(tmp_path):
    """Nobody looks for more."""
    module = atoll.Module("m")
    module.depot("d", "v long", source=Once("a", lambda: [{"v": 1}]))
    for _ in range(2):
        with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
            app = cluster.deploy(module)
            app.source("d").wait_idle()
            assert app.source("d").state == "ended"
            assert sum(app.depot("d").end_offsets()) == 1


def test_what_cannot_be_declared():
    """No name, no function."""
    with pytest.raises(DeclarationError):
        Once("", list)
    with pytest.raises(DeclarationError):
        Once("a", [])
