"""The kinds of problems of a definition: one word for each rule, and what the rule is."""

from __future__ import annotations

__all__ = ["KINDS"]

KINDS: dict[str, str] = {
    "not-json": "What was sent is no JSON, or has a name twice in one object.",
    "too-large": "Something is too large, too deep, not finite, or no text that can be written.",
    "not-an-object": "A definition is a JSON object.",
    "unknown-field": "The definition, or an actor of it, has a field that there is not.",
    "no-runtime-name": "The runtime has no name.",
    "runtime-name": "The runtime's name has other characters than letters, digits and `_`.",
    "owner": "The owner is no text that can stand in an address.",
    "projectid": "The project's id is no UUID.",
    "distribution": "`distribution` asks for what there is not.",
    "no-actors-section": "`actors` is missing, or no array.",
    "no-actors": "`actors` is empty.",
    "too-many": "There are more actors, links or instances than a runtime may have.",
    "nameless-actor": "An actor has no name.",
    "actor-name": "An actor's name has other characters than letters, digits, `_` and `-`, "
    "or is kept for the interface.",
    "duplicate-actor": "Two actors have one name; upper and lower case do not tell them apart.",
    "invalid-actor": "An actor is no object, its type is unknown, or its `params` are wrong.",
    "copies": "`copies` of an actor is no whole number from 1.",
    "log": "`log` is wrong.",
    "state": "`state` is wrong, or asks for modes that cannot be together or that the type has "
    "not.",
    "group": "`group` is wrong, or the type cannot be grouped.",
    "timeout": "`timeout` is wrong, or the type has no state that could be put back.",
    "no-links-section": "`links` is missing, or no array.",
    "no-links": "`links` is empty.",
    "incomplete-link": "A link lacks `from` or `to`.",
    "unknown-link-actor": "A link names an actor that there is not.",
    "duplicate-link": "A link stands twice.",
    "link-into-source": "A link leads to an actor that takes no events.",
    "orphaned-actor": "An actor is neither linked nor collected from.",
    "cycle": "Links, or queries of `collect`, go in a circle: an event would never end.",
    "no-collect": "`collect` is empty, no array, or missing where the type needs it.",
    "collect-entry": "An entry of `collect` is no object, or has fields that it cannot have.",
    "collect-no-alias": "An entry of `collect` has no `alias`.",
    "collect-empty-alias": "Its `alias` is empty.",
    "collect-no-from": "It has no `from`.",
    "collect-empty-from": "Its `from` is empty.",
    "collect-no-field": "It has neither `field` nor `data`, or both.",
    "collect-empty-field": "Its `field` is empty.",
    "collect-name": "Its `alias` or `field` has other characters than letters, digits and `_`.",
    "collect-duplicate-alias": "Two entries have the same `alias`.",
    "collect-itself": "An actor collects from itself.",
    "collect-aliases": "The aliases are not those that the type needs.",
    "collect-unknown-actor": "Its `from` names an actor that there is not.",
    "collect-unknown-field": "The sibling's state has no such field.",
    "collect-query": "The sibling cannot answer a query.",
}
