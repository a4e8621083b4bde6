"""What can be asked of a module, as calls: the same for threads and for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.client.asking.calls import Again, Call
from atoll.client.asking.moved import Moved, moved_of
from atoll.codec.records.refusals import Refusal
from atoll.depot.receipt import Awaited, Receipt, awaited
from atoll.errors import UsageError
from atoll.placement.reschedule.change import UnitChange

if TYPE_CHECKING:
    from atoll.depot import Producer
    from atoll.path import Path

Told = Receipt | Awaited | str
"""What an append gave, or the token of it."""


def same(data: Any) -> Any:
    """What was answered, as it is."""
    return data


def member(name: str) -> Callable[[Any], Any]:
    """One member of what was answered."""
    return lambda data: data[name]


@dataclass(frozen=True)
class ModuleCalls:
    """What can be asked of one module.

    Attributes:
        name: The module.
    """

    name: str

    def at(self, *parts: str) -> tuple[str, ...]:
        """The address of a part of the module."""
        return ("v1", "modules", self.name, *parts)

    def get(
        self,
        *parts: str,
        read: Callable[[Any], Any] = same,
        params: Mapping[str, str] | None = None,
    ) -> Call[Any]:
        """What is at an address."""
        return Call("GET", self.at(*parts), read, params=params or {})

    def post(
        self,
        *parts: str,
        data: Mapping[str, Any] | None = None,
        read: Callable[[Any], Any] = same,
        again: Again = Again.ALWAYS,
        seconds: float | None = None,
        values: bool = False,
        params: Mapping[str, str] | None = None,
    ) -> Call[Any]:
        """Ask for something to be done; ``seconds`` is how long the service is to wait."""
        return Call(
            "POST",
            self.at(*parts),
            read,
            params=params or {},
            json=dict(data or {}),
            again=again,
            wait_seconds=seconds,
            values=values,
        )

    # Waiting --------------------------------------------------------------------------------------

    def wait(self, receipts: Sequence[Told], seconds: float) -> Call[dict[str, int]]:
        """Wait until readers see all that comes of some appends."""
        return self.post("wait", data=_tokens(receipts), read=member("committed"), seconds=seconds)

    def wait_idle(self, seconds: float) -> Call[None]:
        """Wait until nothing is left to do."""
        return self.post("wait", data={"idle": True}, read=_nothing, seconds=seconds)

    def wait_committed(
        self, depot: str, ends: Mapping[int, int] | None, seconds: float
    ) -> Call[dict[str, int]]:
        """Wait until all topologies have committed what a depot holds."""
        told = None if ends is None else {str(part): end for part, end in ends.items()}
        data = {"ends": told}
        return self.post(
            "depots", depot, "wait", data=data, read=member("committed"), seconds=seconds
        )

    def wait_fresh(self, pstate: str, seconds: float) -> Call[int]:
        """Wait until a PState shows all that its depots hold now."""
        return self.post("pstates", pstate, "wait", read=member("committed"), seconds=seconds)

    def wait_topology(self, topology: str, data: Mapping[str, Any], seconds: float) -> Call[int]:
        """Wait for something of one topology; the microbatch that readers see then."""
        parts = ("topologies", topology, "wait")
        return self.post(*parts, data=data, read=member("committed"), seconds=seconds)

    def wait_shown(self, topology: str, receipts: Sequence[Told], seconds: float) -> Call[int]:
        """Wait until readers see what a topology makes of some appends."""
        return self.wait_topology(topology, _tokens(receipts), seconds)

    # Depots ---------------------------------------------------------------------------------------

    def append(
        self,
        depot: str,
        content: Callable[[], Iterable[bytes]],
        media_type: str,
        on_invalid: str,
        producer: Producer | None,
    ) -> Call[Receipt]:
        """Append records that are written already; with a producer it may be sent again."""
        headers = {"content-type": media_type, **({} if producer is None else _named(producer))}
        return Call(
            "POST",
            self.at("depots", depot, "records"),
            lambda data: self.receipt(depot, data),
            params={"on_invalid": on_invalid},
            content=content,
            headers=headers,
            again=Again.UNSENT if producer is None else Again.ALWAYS,
        )

    def receipt(self, depot: str, data: Mapping[str, Any]) -> Receipt:
        """What an append was answered with."""
        offsets = {int(part): (span[0], span[1]) for part, span in data["offsets"].items()}
        refusals = [Refusal(each["line"], each["reason"]) for each in data["refusals"]]
        forgotten = data["appended"] > 0 and not offsets
        behind = dict(awaited(data["token"]).ends) if forgotten else {}
        return Receipt(
            depot,
            data["appended"],
            offsets,
            refusals,
            data["refused"],
            data["duplicate"],
            self.name,
            behind,
        )

    def everything(self, depot: str) -> Call[Receipt]:
        """A receipt of all that a depot holds now."""

        def read(data: Any) -> Receipt:
            spans = enumerate(zip(data["start_offsets"], data["end_offsets"], strict=True))
            offsets = {part: span for part, span in spans if span[0] < span[1]}
            return Receipt(depot, data["records"], offsets, module=self.name)

        return self.get("depots", depot, read=read)

    # PStates and queries --------------------------------------------------------------------------

    def value(
        self, pstate: str, keys: Sequence[object], default: Any, as_of: int | None
    ) -> Call[Any]:
        """The value at some keys, or what stands for an absent one."""
        from atoll.path import Path

        steps = Path().key(*keys).to_json() if keys else []

        def read(data: Any) -> Any:
            return default if not data["found"] and default is not None else data["value"]

        data = {"keys": [step[1] for step in steps]}
        return self.post(
            "pstates", pstate, "get", data=data, read=read, values=True, params=_moment(as_of)
        )

    def select(self, pstate: str, path: Path, *, one: bool, as_of: int | None) -> Call[Any]:
        """The values that a path leads to, or the one value."""
        return self.post(
            "pstates",
            pstate,
            "select",
            data={"path": path.to_json(), "one": one},
            read=member("value" if one else "values"),
            values=True,
            params=_moment(as_of),
        )

    def readable(self, pstate: str, as_of: int) -> Call[Any]:
        """Whether a PState can be read as of a microbatch; nothing of it is."""
        from atoll.path import Path

        return self.select(pstate, Path().stop(), one=False, as_of=as_of)

    def iterate(self, pstate: str, path: Path, as_of: int | None) -> Call[Any]:
        """The same values as a stream."""
        data = {"path": path.to_json(), "stream": True}
        return self.post("pstates", pstate, "select", data=data, values=True, params=_moment(as_of))

    def ask(self, query: str, arguments: Mapping[str, Any], seconds: float) -> Call[Any]:
        """The answer to a query."""
        from atoll.client.asking.plain import plain_arguments

        if not seconds > 0:
            raise UsageError(f"a query cannot answer in {seconds} s", hint="give it some time")
        data = {"arguments": plain_arguments(arguments), "timeout_seconds": min(seconds, 300.0)}
        return self.post("queries", query, data=data, read=member("answer"), values=True)

    # Topologies, options, the cluster -------------------------------------------------------------

    def act(
        self,
        topology: str,
        action: str,
        data: Mapping[str, Any] | None = None,
        read: Callable[[Any], Any] = lambda _: None,
        again: Again = Again.ALWAYS,
    ) -> Call[Any]:
        """Let a topology do something."""
        return self.post("topologies", topology, action, data=data, read=read, again=again)

    def recent(self, topology: str) -> Call[list[dict[str, Any]]]:
        """The last microbatches of a topology, whole."""
        return self.get(
            "topologies",
            topology,
            "microbatches",
            read=member("microbatches"),
            params={"whole": "true"},
        )

    def rollback_plan(self, topology: str, to_microbatch: int) -> Call[dict[str, Any]]:
        """What going back would do."""
        data = {"to_microbatch": to_microbatch, "dry_run": True}
        return self.act(topology, "rollback", data, read=same)

    def set_option(
        self, option: str, value: int | None, where: Mapping[str, str | None]
    ) -> Call[None]:
        """Set an option, or take it back."""
        data = {"option": option, "value": value, **where}
        return self.post("options", data=data, read=_nothing)

    def reschedule(
        self,
        changes: Mapping[int, UnitChange],
        asked: Mapping[str, Any],
        seconds: float,
    ) -> Call[Moved]:
        """Change which units run some fragments."""
        told = {
            str(fragment): {"added": list(each.added), "removed": list(each.removed)}
            for fragment, each in changes.items()
        }
        data = {"changes": told, **asked}
        parts = ("cluster", "reschedule")
        # sent twice it is refused the second time: the revision is another one then
        return self.post(*parts, data=data, read=moved_of, again=Again.UNSENT, seconds=seconds)

    def set_parallelism(
        self, topology: str, policy: str, *, dry_run: bool, seconds: float
    ) -> Call[Moved]:
        """Let a policy decide a topology's parallelism."""
        data = {"policy": policy, "dry_run": dry_run}
        parts = ("topologies", topology, "parallelism")
        return self.post(*parts, data=data, read=moved_of, seconds=seconds)

    def of_workers(self, action: str, workers: Iterable[int]) -> Call[dict[str, Any]]:
        """Cordon, uncordon or forget workers; the cluster then."""
        return self.post("cluster", action, data={"workers": list(workers)})


def value_of_option(
    described: Mapping[str, Any],
    option: str,
    topology: str | None,
    depot: str | None,
    pstate: str | None,
) -> int:
    """What stands for a topology, or a depot or PState of it, of what the options are said to be.

    Raises:
        NotFoundError: When there is no such topology or option.
        UsageError: When there are several topologies and none is named.
    """
    from atoll.errors import NotFoundError
    from atoll.microbatch.control.options import present_name

    topologies = described["topologies"]
    if topology is None:
        if len(topologies) != 1:
            raise UsageError(
                "the module has several topologies, or none",
                hint="name one of " + ", ".join(sorted(topologies)),
            )
        (topology,) = topologies
    if topology not in topologies:
        raise NotFoundError(
            f"the module has no topology {topology!r}",
            hint="it has " + (", ".join(sorted(topologies)) or "none"),
        )
    found = topologies[topology]
    values = dict(found["options"])
    values |= found["depots"].get(depot, {}) if depot is not None else {}
    values |= found["pstates"].get(pstate, {}) if pstate is not None else {}
    name = present_name(option)
    if name not in values:
        raise NotFoundError(f"there is no option {option!r}", hint=", ".join(values))
    value: int = values[name]
    return value


def _tokens(receipts: Sequence[Told]) -> dict[str, Any]:
    return {"tokens": [awaited(each).token for each in receipts]}


def _moment(as_of: int | None) -> dict[str, str]:
    return {} if as_of is None else {"as_of": str(as_of)}


def _named(producer: Producer) -> dict[str, str]:
    return {
        "Atoll-Producer-Id": producer.id,
        "Atoll-Producer-Sequence": str(producer.sequence),
        "Atoll-Producer-Epoch": str(producer.epoch),
    }


def _nothing(data: Any) -> None:
    del data
