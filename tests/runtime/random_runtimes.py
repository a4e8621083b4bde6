"""Definitions and events made by chance, for whoever holds something against the interpreter.

A definition is right, has no circle, and uses every kind of actor whose outcome is the same
however often and in whatever process it runs; a seed gives the same one always.
"""

from __future__ import annotations

import random

NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
FIELDS = ["a", "b", "city"]
CITIES = ["amsterdam", "ghent", "utrecht", "x"]
TYPES = {
    "threshold": lambda chance: {"key": chance.choice("ab"), "threshold": chance.randrange(50)},
    "minmax": lambda chance: {"field": chance.choice("ab"), "min": 10, "max": 60},
    "filter": lambda chance: {
        "filters": [
            {
                "type": "startswith",
                "function": chance.choice(["include", "exclude"]),
                "field": "city",
                "param": chance.choice("agux"),
            }
        ]
    },
    "lookup": lambda chance: {
        "key": "city",
        "function": chance.choice(["enrich", "filter", "check"]),
        "lookup": {"amsterdam": {"country": "nl", "a": 7}, "ghent": {"country": "be"}},
        **chance.choice([{}, {"default": {"city": "${city}", "b": 1}}]),
    },
    "json": lambda chance: {"template": {"a": "${b}", "b": "${a}", "city": "${city}"}},
    "linearregression": lambda chance: {"intercept": 1, "weights": {"a": 2}, "outcome": "b"},
    "function": lambda chance: {"function": "a + 2 * b", "outputfield": "a"},
    "httpbroadcast": lambda chance: {},
    "fsm": lambda chance: {
        "key": "city",
        "table": {"s": {"amsterdam": "t"}, "t": {"ghent": "u", "x": "s"}},
        "s0": "s",
    },
    "stats": lambda chance: {"field": chance.choice("ab")},
    "tabulate": lambda chance: {
        "dimensions": ["city"],
        "value": "a",
        "functions": ["count", "sum", "max"],
        "normalize": "none",
    },
    "window": lambda chance: {
        "method": "count",
        "number": (number := chance.randrange(1, 6)),
        "sliding": chance.randrange(1, number + 1),
    },
}
COLLECT_LOCAL = [
    {"event-count": 3},
    {"sliding-window": {"size": 4, "slide": 1}},
    {"sliding-window": {"size": 3, "slide": 3}},
]


def random_definition(seed, copies=1):
    """A definition with up to eight actors; events go to ``alpha``, which passes all of them on.

    Args:
        seed: Which one.
        copies: The most instances that an actor may have.
    """
    chance = random.Random(f"definition {seed}")
    names = NAMES[: chance.randrange(2, len(NAMES) + 1)]
    first = {"name": names[0], "type": "httpbroadcast"}
    actors = [first, *(_actor(chance, name, copies) for name in names[1:])]
    chance.shuffle(actors)
    links = [{"from": names[chance.randrange(at)], "to": names[at]} for at in range(1, len(names))]
    for _ in range(chance.randrange(4)):
        first, second = sorted(chance.sample(range(len(names)), 2))
        link = {"from": names[first], "to": names[second]}
        links += [link] if link not in links else []
    _collect(chance, actors)
    return {"name": f"r{seed}", "actors": actors, "links": links}


def random_events(seed, count):
    """So many events; a few have another type in a field."""
    chance = random.Random(f"events {seed}")
    return [_event(chance) for _ in range(count)]


def _actor(chance, name, copies):
    kind = chance.choice(list(TYPES))
    actor = {"name": name, "type": kind, "params": TYPES[kind](chance)}
    if chance.random() < 0.3:
        actor["group"] = {"by": "city"}
    if chance.random() < 0.3:
        actor["copies"] = chance.randrange(1, copies + 1)
    if kind == "stats" and chance.random() < 0.4:
        update = chance.choice(COLLECT_LOCAL)
        local = chance.random() < 0.5
        actor["state"] = {"calc-local": local, "collect-local": {"update": update}}
    return actor


def _collect(chance, actors):
    """Some formulas collect a count, or a sibling's answer."""
    counted = [each for each in actors if each["type"] == "stats"]
    asked = [each for each in actors if each["type"] in {"json", "lookup", "httpbroadcast"}]
    for actor in actors:
        if actor["type"] != "function" or not counted:
            continue
        count = {"alias": "n", "from": chance.choice(counted)["name"], "field": "count"}
        actor["collect"] = [count]
        actor["params"]["function"] = "a + n"
        if asked and chance.random() < 0.5:
            data = {"city": chance.choice(CITIES), "a": 3, "b": 4}
            actor["collect"].append(
                {"alias": "other", "from": chance.choice(asked)["name"], "data": data}
            )


def _event(chance):
    event = {}
    for name in ("a", "b"):
        if chance.random() < 0.9:
            event[name] = chance.choice([chance.randrange(100), chance.randrange(200) / 2])
    if chance.random() < 0.9:
        event["city"] = chance.choice(CITIES)
    if chance.random() < 0.05:
        event[chance.choice("ab")] = chance.choice([None, "text", True, [1]])
    return event
