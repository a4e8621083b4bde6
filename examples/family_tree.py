"""Who descends from whom: ancestors and descendants of a person, and how many generations away."""

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import atoll
from atoll import agg, path


@dataclass
class Person:
    """Somebody, and the ids of the parents as far as they are known."""

    id: str
    name: str
    parents: list[str]


module = atoll.Module("family-tree")
people = module.depot("people", Person, partition_by="id")
mb = module.microbatch("mb")
persons = mb.pstate("persons", dict[str, Person])
children = mb.pstate("children", dict[str, set[str]])


def keep(row: Person, persons: MutableMapping[str, Person]) -> Iterator[dict[str, str]]:
    """Keep the person, and tell each parent."""
    persons[row.id] = row
    yield from ({"child": row.id, "parent": parent} for parent in row.parents)


rows = mb.source(people)
born = rows.process(keep, key="id", states=[persons], emits="child string, parent string")
born.aggregate(children["parent"], agg.collect_set("child"))


def related(name: str, state: Any, way: Callable[[Any], path.Path]) -> None:
    """A query that goes from persons to the next ones, and tells of them on its way."""

    def next_ones(rows: Any) -> Any:
        near = (
            rows.where("at < generations")
            .select_from(state, way, emits="next string")
            .select("next AS id", "generations", "at + 1 AS at")
            .distinct()
        )
        return near, near

    (
        module.query(name, id=str, generations=int)
        .with_columns(at="0L")
        .loop(next_ones, at_most=30)
        .group_by("id AS of")
        .agg(at=agg.min("at"))
        .returns(rows="all")
    )


related("ancestors", persons, lambda row: path.key(row.id).field("parents").all())
related("descendants", children, lambda row: path.key(row.id).all())
