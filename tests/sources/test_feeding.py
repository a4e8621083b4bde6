"""What is kept of a source: over lives, broken turns and missing plans."""

import pytest
from feeding import drained, fed, values

from atoll.errors import DamageError, DeclarationError, UsageError
from atoll.sources import kept, kind_named
from atoll.sources.base import Lag, Reader, Source
from atoll.sources.files import Files


class Numbers(Source):
    """Counts up to a number, some at a time."""

    kind = "numbers"

    def __init__(self, upto, step=3, breaks=(), **settings):
        super().__init__(
            "numbers", **{"id": None, "poll": "1 second", "dead_letter": None} | settings
        )
        self.upto, self.step, self.breaks = upto, step, list(breaks)
        self.read = []

    def open(self, schema):
        """Its reader."""
        return NumbersReader(self)


class NumbersReader(Reader):
    """Breaks off before the numbers that it shall break off at, once each."""

    def __init__(self, source):
        self.source = source

    def next(self, position):
        """The next few."""
        after = position.get("after", 0)
        upto = min(after + self.source.step, self.source.upto)
        return {"after": after, "upto": upto} if upto > after else None

    def read(self, reads, codec):
        """Each as a batch; every fifth fits nowhere."""
        codec.place = "numbers"
        self.source.read.append((reads["after"], reads["upto"]))
        for number in range(reads["after"], reads["upto"]):
            if number in self.source.breaks:
                self.source.breaks.remove(number)
                raise ConnectionError(number)
            row = {"v": number} if number % 5 else {"v": "five"}
            yield codec.from_rows([row], number)

    def after(self, position, reads):
        """Behind them."""
        return {"after": reads["upto"]}

    def lag(self, position):
        """Known exactly."""
        return Lag(self.source.upto - position.get("after", 0), "numbers")


def test_a_turn_that_breaks_is_taken_again_as_it_was_planned(tmp_path):
    """Another life reads exactly what was planned, though its source would plan otherwise."""
    with fed(tmp_path, Numbers(10, breaks=[4]), setting_aside=True) as (feeder, depot, _):
        assert feeder.turn().records == 2
        with pytest.raises(ConnectionError):
            feeder.turn()
        assert values(depot) == [1, 2]
    later = Numbers(20, step=10)
    with fed(tmp_path, later, setting_aside=True) as (feeder, depot, aside):
        assert drained(feeder) == (14, 3)
        assert later.read == [(3, 6), (6, 16), (16, 20)]
        assert values(depot) == [each for each in range(20) if each % 5]
        rows = aside.read(0, 0, aside.end_offsets()[0]).to_pylist()
        assert [row["line"] for row in rows] == [f"numbers:{n}" for n in (0, 5, 10, 15)]
        assert feeder.lag() == Lag(0, "numbers")


def test_what_was_set_aside_before_a_death_is_not_set_aside_again(tmp_path, monkeypatch):
    """It is stored before the good records, under the number of the append."""
    with fed(tmp_path, Numbers(3), setting_aside=True) as (feeder, depot, aside):
        with monkeypatch.context() as dying:
            dying.setattr(depot._writer, "submit", _die)
            with pytest.raises(KeyboardInterrupt):
                feeder.turn()
        assert (depot.end_offsets(), aside.end_offsets()) == ((0,), (1,))
    with fed(tmp_path, Numbers(3), setting_aside=True) as (feeder, depot, aside):
        assert drained(feeder) == (2, 1)
        assert (depot.end_offsets(), aside.end_offsets()) == ((2,), (1,))


def _die(request):
    raise KeyboardInterrupt


def test_the_position_is_kept_as_a_whole_and_plans_are_dropped(tmp_path, monkeypatch):
    """Whoever begins reads few objects, however long it ran."""
    monkeypatch.setattr(kept, "_POSITION_EVERY", 4)
    with fed(tmp_path, Numbers(33), setting_aside=True) as (feeder, _, _):
        assert drained(feeder) == (26, 7)
        plans = feeder._log._plans.numbers()
        assert plans == [8, 9, 10, 11]
        assert feeder._log._wholes.numbers() == [8]
    with fed(tmp_path, Numbers(36), setting_aside=True) as (feeder, depot, _):
        assert drained(feeder) == (2, 1)
        assert values(depot) == [each for each in range(36) if each % 5]


def test_a_plan_that_took_effect_and_is_gone_is_damage(tmp_path):
    """Nobody may guess what was read; one that did not take effect may be gone."""
    source = Numbers(10, breaks=[7])
    with fed(tmp_path, source, setting_aside=True) as (feeder, _, _):
        feeder.turn()
        feeder.turn()
        with pytest.raises(ConnectionError):
            feeder.turn()
        plans = feeder._log._plans
        plans.store.delete(plans.name(3))
    with fed(tmp_path, Numbers(10), setting_aside=True) as (feeder, _, _):
        assert feeder.turn().records == 3  # 6, 7, 8
        plans.store.delete(plans.name(2))
    life = fed(tmp_path, Numbers(10), setting_aside=True)
    with life as (feeder, _, _), pytest.raises(DamageError, match="plan of a source"):
        feeder.turn()


def test_each_id_has_a_position_of_its_own(tmp_path):
    """Another source begins at its beginning; the one before goes on when it comes back."""
    with fed(tmp_path, Numbers(3), setting_aside=True) as (feeder, _, _):
        assert drained(feeder) == (2, 1)
    with fed(tmp_path, Numbers(3, id="others"), setting_aside=True) as (feeder, _, _):
        assert drained(feeder) == (2, 1)
    with fed(tmp_path, Numbers(4), setting_aside=True) as (feeder, _, _):
        assert drained(feeder) == (1, 0)


def test_kinds_are_found_by_name():
    """Those of Atoll, and those that other packages bring."""
    assert kind_named("files") is Files
    with pytest.raises(UsageError, match="no source of kind 'pigeons'"):
        kind_named("pigeons")


def test_a_depot_takes_sources_only():
    """And records go aside to a dead-letter depot of the same module."""
    import atoll

    module, other = atoll.Module("m"), atoll.Module("o")
    with pytest.raises(DeclarationError, match="cannot be fed"):
        module.depot("a", "v long", source="in/*.csv")
    with pytest.raises(DeclarationError, match="rejected records"):
        module.depot("b", "v long", source=Files("in/*", dead_letter=other.dead_letter_depot("r")))
