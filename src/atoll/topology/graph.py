"""The operators of one topology and what must hold among them.

A topology is a graph without cycles. A PState is written by the topology that declares it, and by
no other; each source names a depot of the module.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from atoll.errors import DeclarationError
from atoll.topology.kept.way import way_after
from atoll.topology.operator import Operator, StateOperator
from atoll.topology.sources import Source, Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from atoll.schema import Node
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration, TickDeclaration
    from atoll.topology.kept.hidden import Hidden
    from atoll.topology.kept.meanings import Written

ColumnsWay = Literal["auto", "spark", "tasks"]
"""``auto``: the tasks where they can, else Spark; the others demand one of the two."""
COLUMNS_WAYS: tuple[ColumnsWay, ...] = get_args(ColumnsWay)


def declared_pstate(pstate: object, step: str, place: str) -> PStateDeclaration:
    """What was given to a step as a PState, when it is one.

    Raises:
        DeclarationError: With what was given instead.
    """
    from atoll.topology.declared import PStateDeclaration

    if not isinstance(pstate, PStateDeclaration):
        raise DeclarationError(
            f"{step} takes a PState, not {pstate!r}",
            hint="give what pstate(...) of this topology returned, not its name",
            declared=place,
        )
    return pstate


class Graph:
    """Collects a topology's operators and PStates in the order of their declaration."""

    word = "topology"
    """What it is the graph of, for messages."""

    def __init__(self, module: str, topology: str) -> None:
        self.module = module
        self.topology = topology
        self.operators: list[Operator] = []
        self.pstates: dict[str, PStateDeclaration] = {}
        self.vnode_count = 1
        """Into how many vnodes the PStates of its own steps are divided."""
        self.dead_letter: DepotDeclaration | None = None
        """Where rows go on which a user's function raises; None: they fail the microbatch."""
        self.columns: ColumnsWay = "auto"
        """What runs its column steps."""
        self.queries: Mapping[str, Graph] = {}
        """The module's queries, which a step may ask."""
        self.module_pstates: Callable[[], Mapping[str, PStateDeclaration]] = dict
        """Gives the module's PStates, which its steps may read."""
        self.hidden: list[Hidden] = []
        """What its steps keep that no user declared."""
        self.written: list[Written] = []
        """What the aggregates into its PStates mean."""
        self.ways: dict[Operator, str] = {}
        """A digest of the steps up to each operator."""
        self._exact: dict[Operator, str] = {}
        self._rows: dict[str, str] = {}
        self.row_classes: dict[Operator, type] = {}
        """The class whose objects a Python step gives, where it was declared with one."""
        self.loop_round = ""
        """Which round of a loop is being declared, and of which in that; empty outside."""
        self.always: list[Operator] = []
        """Steps that run although nobody reads what comes out of them: they check."""

    def add(self, operator: Operator) -> None:
        """Append an operator; its inputs were added before it.

        Raises:
            DeclarationError: When an input is another topology's, or a step that emits nothing.
        """
        for each in operator.inputs:
            if each not in self.operators:
                raise DeclarationError(
                    f"{operator.title} in {self.word} {self.topology!r} takes a stream of another "
                    f"{self.word}",
                    hint=f"begin both streams in the same {self.word}",
                    declared=operator.place,
                )
            if isinstance(each, StateOperator) and not each.emits:
                raise DeclarationError(
                    f"{operator.title} follows a {each.title} that emits no rows",
                    hint='declare what it yields: emits="id string, amount long"',
                    declared=operator.place,
                )
        self.operators.append(operator)
        self.ways[operator] = way_after(operator, self.ways)
        self._exact[operator] = way_after(operator, self._exact, exact=True)

    def add_hidden(self, hidden: Hidden, *nodes: Node, of_rows: Operator | None = None) -> Hidden:
        """Hidden state of a step that is being declared, with a name of its own.

        Args:
            hidden: What it is.
            *nodes: The schemas of its PStates, as far as they are known.
            of_rows: For what says no more than what the rows after an operator say: it is that of
                another step over the very same rows, when there is one.

        Raises:
            DeclarationError: When nothing tells it apart from that of another step.
        """
        scope = (f"round {self.loop_round}",) if self.loop_round else ()
        hidden = replace(hidden.check(), belongs=(*hidden.belongs, *scope))
        for each in self.hidden:
            if (each.identity, each.signature) == (hidden.identity, hidden.signature):
                if of_rows is None or self._rows[each.label] != self._exact[of_rows]:
                    self._same_twice(hidden, each)
                return each
        hidden = hidden.labelled({each.label for each in self.hidden})
        self.hidden.append(hidden)
        if of_rows is not None:
            self._rows[hidden.label] = self._exact[of_rows]
        for name, node in zip(hidden.stored, nodes, strict=False):
            self.pstates[name] = self._private(hidden, name, node)
        return hidden

    def hidden_pstates(self, hidden: Hidden) -> tuple[PStateDeclaration, ...]:
        """The PStates in which it is kept; no user's name begins as theirs do."""
        return tuple(self.pstates[name] for name in hidden.stored)

    def _same_twice(self, hidden: Hidden, other: Hidden) -> None:
        raise DeclarationError(
            f"topology {self.topology!r} has two steps whose state nothing tells apart after an "
            f"update: {hidden.text}, here and at {other.place}",
            hint=f"{hidden.naming}, on one of them or both",
            declared=hidden.place,
        )

    def _private(self, hidden: Hidden, name: str, node: Node) -> PStateDeclaration:
        from atoll.topology.declared import PStateDeclaration

        return PStateDeclaration(
            self.module,
            self.topology,
            name,
            node,
            self.vnode_count,
            is_global=False,
            initial=None,
            place=hidden.place,
            private=True,
            hidden=hidden,
        )

    def check_own(self, pstate: object, step: str, place: str) -> None:
        """Refuse what is no PState, and a PState of another topology.

        Raises:
            DeclarationError: With the topology that owns it, or with what was given instead.
        """
        pstate = declared_pstate(pstate, step, place)
        if pstate.mirrored:
            raise DeclarationError(
                f"{step} in topology {self.topology!r} would write {pstate.name!r}, a mirror",
                hint="a mirror is read with lookup(...) or join(...); append to a depot of "
                f"module {pstate.module!r} to have it changed there",
                declared=place,
            )
        if self.pstates.get(pstate.name) is not pstate:
            raise DeclarationError(
                f"{step} in topology {self.topology!r} uses the PState {pstate.name!r}, "
                f"which topology {pstate.topology!r} of module {pstate.module!r} owns",
                hint="a PState is written by one topology: declare one here, or put the step "
                "there; to read it only, write lookup(...) or join(...)",
                declared=place,
            )

    def check_readable(self, pstate: object, step: str, place: str) -> None:
        """Refuse what a step of this topology cannot read: all but its module's and mirrors.

        Raises:
            DeclarationError: With what can be read instead.
        """
        pstate = declared_pstate(pstate, step, place)
        if pstate.mirrored or self.pstates.get(pstate.name) is pstate:
            return
        theirs = f"topology {pstate.topology!r} of module {pstate.module!r}"
        problem = f"which {theirs} writes"
        hint = (
            "mirror it, and read the mirror: module.mirror_pstate("
            f"{pstate.module!r}, {pstate.name!r}, {pstate.node!r})"
        )
        if self.module_pstates().get(pstate.name) is pstate:
            if not pstate.private:
                return
            problem, hint = f"which is private to {theirs}", "declare it without private=True"
        elif pstate.module == self.module:
            problem = f"which is another declaration of a module {pstate.module!r}"
            hint = "give what pstate(...) of a topology of this very module returned"
        raise DeclarationError(
            f"{step} in topology {self.topology!r} reads the PState {pstate.name!r}, {problem}",
            hint=hint,
            declared=place,
        )

    def check_target(self, depot: object, place: str) -> None:
        """Refuse to append to anything but a depot of this module, or one that it mirrors.

        Raises:
            DeclarationError: With what was given instead.
        """
        from atoll.topology.declared import DepotDeclaration

        if not isinstance(depot, DepotDeclaration):
            raise DeclarationError(
                f"append_to takes a depot, not {depot!r}",
                hint="give what module.depot(...) returned",
                declared=place,
            )
        if depot.log is not None:
            raise DeclarationError(
                f"append_to takes a depot of Atoll's; the records of {depot.name!r} lie in a log "
                "that others keep",
                hint="append to a depot of Atoll's, and bring what it holds there",
                declared=place,
            )
        if depot.module != self.module and not depot.mirrored:
            raise DeclarationError(
                f"depot {depot.name!r} belongs to module {depot.module!r}",
                hint="give append_to a mirror of it: "
                f"module.mirror_depot({depot.module!r}, {depot.name!r}, ...)",
                declared=place,
            )

    @property
    def state_operators(self) -> list[StateOperator]:
        """Those that run on actors, in the order of their declaration."""
        return [each for each in self.operators if isinstance(each, StateOperator)]

    @property
    def sources(self) -> list[Source]:
        """Those that read depots."""
        return [each for each in self.operators if isinstance(each, Source)]

    def depots(self) -> dict[str, DepotDeclaration]:
        """The depots that the topology reads, by name."""
        return {source.depot.name: source.depot for source in self.sources}

    def ticks(self) -> dict[str, TickDeclaration]:
        """The ticks that the topology reads, by name."""
        found = [each.tick for each in self.operators if isinstance(each, Tick)]
        return {tick.name: tick for tick in found}

    def targets(self) -> dict[str, DepotDeclaration]:
        """The depots that the topology appends to, by name."""
        depots = [step.appends_to for step in self.state_operators]
        return {depot.name: depot for depot in depots if depot is not None}

    def appends_to(self) -> list[str]:
        """The names of the depots that it may append to, that of rejected rows among them."""
        rejected = [] if self.dead_letter is None else [self.dead_letter.name]
        return sorted({*self.targets(), *rejected})

    def writers(self, pstate: PStateDeclaration) -> list[StateOperator]:
        """The operators that write a PState."""
        return [each for each in self.state_operators if pstate in each.writes]

    def read_elsewhere(self) -> dict[str, str]:
        """The PStates that it reads, itself or through queries, and another topology writes.

        For each the place of a step that reads it.
        """
        queries = asked_by(self.operators, self.queries).values()
        asked = [step for query in queries for step in query.operators]
        return {
            pstate.name: step.place
            for step in (*self.operators, *asked)
            for pstate in step.reads
            if pstate.name not in self.pstates
        }

    def check(self) -> None:
        """What can only be seen once the whole topology is declared.

        Raises:
            DeclarationError: A topology without sources, or sources of one depot that start at
                different places.
        """
        if not self.sources and not self.ticks():
            raise DeclarationError(
                f"topology {self.topology!r} has no source",
                hint="start it with microbatch.source(depot)",
            )
        from atoll.depot.start import end

        starts: dict[str, object] = {}
        for source in self.sources:
            start = source.start_from or end()
            if starts.setdefault(source.depot.name, start) != start:
                raise DeclarationError(
                    f"topology {self.topology!r} reads depot {source.depot.name!r} twice, "
                    "from different starts",
                    hint="give both sources the same start_from",
                    declared=source.place,
                )


def asked_by(operators: Iterable[Operator], queries: Mapping[str, Graph]) -> dict[str, Graph]:
    """The queries that operators ask, and those that these ask, by name."""
    found: dict[str, Graph] = {}
    waiting = list(operators)
    while waiting:
        name = waiting.pop().asks
        if name is not None and name in queries and name not in found:
            found[name] = queries[name]
            waiting.extend(found[name].operators)
    return found
