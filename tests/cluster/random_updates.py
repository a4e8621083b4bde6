"""Random modules with hidden state, edits of them, and what plain Python makes of both.

A module is a list of :class:`Step`, plain data. :class:`Oracle` folds records by it and knows
nothing of Atoll: what a step keeps is found again by what the step *is* (:attr:`Step.core`), so it
says what every update must come to, whatever the order of the steps.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import strategies as st

import atoll
from atoll import Map, agg, start

ROW = "k string, a string, b string, n long, m long, at long"
KEYS, WORDS = "kl", "xyz"
WINDOW = 10
MILLIS = 1000 * WINDOW


@dataclass(frozen=True)
class Step:
    """One step: what it is, where it goes, and what it takes of the rows.

    ``odd`` keeps rows of odd ``n`` only, before the step: it tells steps apart that are otherwise
    the same, and may change without another meaning of what is kept.
    """

    kind: str
    pstate: str
    takes: str
    odd: bool = False
    name: str | None = None
    topology: int = 0

    @property
    def place(self):
        """Where its hidden state stands."""
        if self.kind in ("distinct", "timers"):
            return self.pstate
        return self.takes[0] if self.kind == "join" else ""

    @property
    def identity(self):
        """Which hidden state it is: the user's name for it, or where it stands."""
        return (self.topology, self.kind, self.name or "", "" if self.name else self.place)

    @property
    def means(self):
        """What the contents of its hidden state mean."""
        takes = "" if self.kind == "timers" else self.takes[-1]
        return (takes, self.pstate if self.kind in ("distinct", "timers") else "")

    @property
    def way(self):
        """What comes before it, as far as that is visible."""
        return (self.odd, self.takes if self.kind == "timers" else "", self.place)

    @property
    def timed(self):
        """Whether it goes by a watermark."""
        return self.kind in ("windows", "sessions", "timers")


TAKES = {
    "plain": ("count", "sum n", "sum m", "max n"),
    "distinct": ("a", "b", "n", "m"),
    "join": ("r a", "r b", "s a", "s b"),
    "windows": ("n", "m"),
    "sessions": ("n", "m"),
    "timers": ("later", "latest"),
}


def steps(kinds=tuple(TAKES)):
    """One step; its PState is given to it later."""
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.builds(
            Step,
            st.just(kind),
            st.just(""),
            st.sampled_from(TAKES[kind]),
            st.booleans(),
            topology=st.integers(0, 1),
        )
    )


@dataclass(frozen=True)
class Version:
    """The steps of a module, by order; ``bare`` are PStates that no step writes any more."""

    steps: tuple[Step, ...]
    bare: tuple[tuple[str, int], ...] = ()

    def pstates(self):
        """The PStates that it declares, with their topology."""
        return {**{each.pstate: each.topology for each in self.steps}, **dict(self.bare)}


EDITS = ("insert", "remove", "unwrite", "swap", "takes", "odd", "name", "beside", "become")


@st.composite
def histories(draw, versions=3):
    """A first version, and later ones by one to three edits each."""
    made = iter(range(1000))
    first = [_placed(draw(steps()), next(made)) for _ in range(draw(st.integers(1, 4)))]
    found = [_apart(Version(tuple(first)), made)]
    for _ in range(draw(st.integers(1, versions))):
        version = found[-1]
        for _ in range(draw(st.integers(1, 3))):
            version = _apart(_edited(draw, version, made), made)
        found.append(version)
    return found


def _apart(version, made):
    """The version with a name for each step that nothing else tells apart, as the hint says."""
    known, rows = set(), []
    for step in version.steps:
        full = (step.identity, step.means, step.way)
        if full in known and step.kind != "plain":
            step = dataclasses.replace(step, name=f"n{next(made)}")  # noqa: PLW2901
        known.add(full)
        rows.append(step)
    return dataclasses.replace(version, steps=tuple(rows))


def _placed(step, number):
    return dataclasses.replace(step, pstate=f"p{number}")


def _edited(draw, version, made):  # noqa: C901  # a case per edit
    edit = draw(st.sampled_from(EDITS))
    rows = list(version.steps)
    if edit == "insert" or not rows:
        rows.insert(draw(st.integers(0, len(rows))), _placed(draw(steps()), next(made)))
        return dataclasses.replace(version, steps=tuple(rows))
    at = draw(st.integers(0, len(rows) - 1))
    step = rows[at]
    bare = version.bare
    match edit:
        case "remove":
            del rows[at]
        case "unwrite":
            del rows[at]
            if step.pstate not in {each.pstate for each in rows}:
                bare = (*bare, (step.pstate, step.topology))
        case "swap":
            other = draw(st.integers(0, len(rows) - 1))
            rows[at], rows[other] = rows[other], rows[at]
        case "takes":
            rows[at] = dataclasses.replace(step, takes=draw(st.sampled_from(TAKES[step.kind])))
        case "odd":
            rows[at] = dataclasses.replace(step, odd=not step.odd)
        case "name":
            rows[at] = dataclasses.replace(step, name=f"n{next(made)}")
        case "beside" if step.kind in ("distinct", "plain"):
            beside = draw(steps((step.kind,)))
            beside = dataclasses.replace(beside, pstate=step.pstate, topology=step.topology)
            rows.insert(draw(st.integers(0, len(rows))), beside)
        case "become" if step.kind in ("distinct", "plain"):
            kind = "plain" if step.kind == "distinct" else "distinct"
            takes = draw(st.sampled_from(TAKES[kind]))
            rows[at] = dataclasses.replace(step, kind=kind, takes=takes, name=None)
    return Version(tuple(rows), bare)


# The module ---------------------------------------------------------------------------------------


def build(version):
    """The module of a version."""
    module = atoll.Module("random")
    depots = {
        name: module.depot(name, ROW, partition_by="k", partitions=1) for name in ("d", "r", "s")
    }
    topologies = [module.microbatch(f"t{number}", vnode_count=2) for number in (0, 1)]
    pstates = {
        name: topologies[owner].pstate(name, Map(str, int))
        for name, owner in version.pstates().items()
    }
    for each in topologies:  # each reads every depot in every version: none begins anew
        read = each.pstate(f"all{each.name}", Map(str, int))
        for depot in depots.values():
            each.source(depot, start_from=start.beginning()).aggregate(read["k"], agg.count())
    for step in version.steps:
        _declare(step, topologies[step.topology], depots, pstates[step.pstate])
    return module


def is_odd(row):
    """A condition that has a name."""
    return row.n % 2 == 1


def later(row, _pstate, timers):
    """A timer for each row, at a time that says the row."""
    timers.at(row.at + 10_000 + row.n)


def latest(row, _pstate, timers):
    """Another function for the same timers."""
    timers.at(row.at + 10_000 + row.n)


def fire(timer, pstate, _timers):
    """Counts what was due."""
    pstate[timer.key] = pstate.get(timer.key, 0) + 1


def _declare(step, mb, depots, pstate):
    rows = mb.source(depots["d"], start_from=start.beginning())
    if step.odd:
        rows = rows.where(is_odd)
    target = pstate["k"]
    match step.kind:
        case "plain":
            word, _, column = step.takes.partition(" ")
            rows.aggregate(target, getattr(agg, word)(*([column] if column else [])))
        case "distinct":
            rows.aggregate(target, agg.count_distinct(step.takes, name=step.name))
        case "join":
            depot, _, column = step.takes.partition(" ")
            other = mb.source(depots[depot], start_from=start.beginning())
            other = other.select("k AS k2", f"{column} AS {column}2")
            joined = rows.select("k", "n", "a").incremental_join(
                other, on="left.k = right.k2", name=step.name
            )
            joined.aggregate(target, agg.count())
        case "windows" | "sessions":
            timed = rows.with_watermark("at", "0 seconds")
            wide = f"{WINDOW} seconds"
            word = "window" if step.kind == "windows" else "session_window"
            windows = getattr(timed, word)("at", wide, name=step.name)
            windows.aggregate_windows("k", total=agg.sum(step.takes)).aggregate(
                target, agg.sum("total")
            )
        case "timers":
            timed = rows.with_watermark("at", "0 seconds")
            function = later if step.takes == "later" else latest
            timed.process(
                function, key="k", states=[pstate], on_timer=fire, timers="event", name=step.name
            )


# The oracle ---------------------------------------------------------------------------------------


@dataclass
class Expected:
    """What an update comes to: how many hidden states are kept, new and dropped, and whether not.

    ``refused`` says that it needs somebody's consent.
    """

    kept: int = 0
    added: int = 0
    removed: int = 0
    refused: bool = False


class Oracle:
    """Folds batches of records by a version, and goes on from one version to the next."""

    def __init__(self, version):
        self.version = version
        self.values = {name: {} for name in version.pstates()}
        self.hidden = {step: _empty(step) for step in version.steps if step.kind != "plain"}
        self.marks = dict.fromkeys(_marks(version))

    def update(self, version):
        """Another oracle that goes on with what the new version finds again, and what is said."""
        after = Oracle(version)
        said = Expected()
        for name in after.values:
            after.values[name] = dict(self.values.get(name, {}))
        gone = set(self.values) - set(after.values)
        found = _found(list(self.hidden), list(after.hidden))
        for new in after.hidden:
            after.hidden[new] = (
                copy.deepcopy(self.hidden[found[new]]) if new in found else _empty(new)
            )
        kept = set(found.values())
        owned = {each for each in self.hidden if each.place in gone and each.kind in OWNED}
        said.kept, said.added = len(found), len(after.hidden) - len(found)
        said.removed = len(self.hidden) - len(kept)
        said.refused = bool(gone or set(self.hidden) - kept - owned)
        said.refused |= any(
            new not in found and any(old.identity == new.identity for old in self.hidden)
            for new in after.hidden
            if not any(old.identity == new.identity for old in kept)
        ) and bool(set(self.hidden) - kept - owned)
        self._marks_of(after, said)
        return after, said

    def _marks_of(self, after, said):
        """A watermark is that over the same rows; or the only one there was, of the only one."""
        for topology in (0, 1):
            old = {mark for mark in self.marks if mark[0] == topology}
            new = {mark for mark in after.marks if mark[0] == topology}
            pairs = {mark: mark for mark in old & new}
            if len(old) == len(new) == 1:
                pairs = {next(iter(new)): next(iter(old))}
            for mark, known in pairs.items():
                after.marks[mark] = self.marks[known]
            said.kept += len(pairs)
            said.added += len(new) - len(pairs)
            said.removed += len(old) - len(pairs)

    def batch(self, records):
        """One microbatch, and those after it that only do what is due."""
        for step in self.version.steps:
            rows = [row for row in records["d"] if row["n"] % 2 == 1 or not step.odd]
            self._step(step, rows, records)
        for odd_of in self.marks:
            times = [row["at"] for row in records["d"] if row["n"] % 2 == 1 or not odd_of[1]]
            known = [] if self.marks[odd_of] is None else [self.marks[odd_of]]
            self.marks[odd_of] = max([*known, *times], default=None)
        for step in self.version.steps:
            self._due(step)

    def _step(self, step, rows, records):  # noqa: C901  # a case per kind
        values, kept = self.values[step.pstate], self.hidden.get(step)
        match step.kind:
            case "plain":
                for row in rows:
                    _plain(values, step.takes, row)
            case "distinct":
                for row in rows:
                    values.setdefault(row["k"], 0)
                    if row[step.takes] not in kept[row["k"]]:
                        kept[row["k"]].add(row[step.takes])
                        values[row["k"]] += 1
            case "join":
                left, right = kept
                before = {key: left[key] * right[key] for key in left}
                left.update(row["k"] for row in rows)
                right.update(row["k"] for row in records[step.takes[0]])
                for key in left:
                    new = left[key] * right[key] - before.get(key, 0)
                    if new:
                        values[key] = values.get(key, 0) + new
            case "timers":
                for row in rows:
                    kept.add((row["k"], row["at"] + 10_000 + row["n"]))
            case "windows" | "sessions":
                for row in rows:
                    _open(step, kept, row, self.marks[step.topology, step.odd])

    def _due(self, step):
        mark = self.marks.get((step.topology, step.odd))
        if not step.timed or mark is None:
            return
        values, kept = self.values[step.pstate], self.hidden[step]
        for each in sorted(kept):
            key, end = each[:2]
            if end <= mark:
                by = 1 if step.kind == "timers" else kept[each]
                values[key] = values.get(key, 0) + by
                if step.kind == "timers":
                    kept.remove(each)
                else:
                    del kept[each]


OWNED = ("distinct", "timers")


def _marks(version):
    return {(step.topology, step.odd) for step in version.steps if step.timed}


def _empty(step):
    match step.kind:
        case "distinct":
            return defaultdict(set)
        case "join":
            return Counter(), Counter()
        case "timers":
            return set()
    return {}


def _found(olds, news):
    """For each step that goes on the one whose state it goes on with."""
    found = {}
    sizes = Counter(each.identity for each in (*olds, *news))
    for key, only in (
        (lambda each: (each.identity, each.means, each.way), lambda _: True),
        (lambda each: (each.topology, each.kind, each.means, each.way), lambda _: True),
        (lambda each: (each.identity, each.means), lambda each: sizes[each.identity] == 2),
    ):
        rest_old = [each for each in olds if each not in found.values()]
        rest_new = [each for each in news if each not in found]
        for new in rest_new:
            there = [old for old in rest_old if key(old) == key(new)]
            alone = [each for each in rest_new if key(each) == key(new)] == [new]
            if alone and len(there) == 1 and only(new):
                found[new] = there[0]
    return found


def _plain(values, takes, row):
    word, _, column = takes.partition(" ")
    old = values.get(row["k"])
    match word:
        case "count":
            values[row["k"]] = (old or 0) + 1
        case "sum":
            values[row["k"]] = (old or 0) + row[column]
        case "max":
            values[row["k"]] = row[column] if old is None else max(old, row[column])


def _open(step, kept, row, mark):
    """Fold a row into its window, or into the session that it makes of those that it meets."""
    key, at, value = row["k"], row["at"], row[step.takes]
    begin = at if step.kind == "sessions" else at - at % MILLIS
    end = begin + MILLIS
    if mark is not None and end <= mark:
        return
    if step.kind == "sessions":
        for each in [e for e in kept if e[0] == key and e[2] < end and begin < e[1]]:
            value += kept.pop(each)
            begin, end = min(begin, each[2]), max(end, each[1])
    kept[key, end, begin] = kept.get((key, end, begin), 0) + value
