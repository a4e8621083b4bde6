"""Two hundred definitions that nobody means well with, each with the kinds of what is wrong.

Each is a right definition with one or more changes: a list of (JSON pointer, value), where the
value ``LEAVE_OUT`` removes what is there. And ``mutated`` makes more of any definition, by chance.
"""

from __future__ import annotations

import copy
import math

LEAVE_OUT = object()

RIGHT = {
    "name": "shop",
    "owner": "ann",
    "actors": [
        {"name": "in", "type": "httpbroadcast"},
        {
            "name": "large",
            "type": "threshold",
            "params": {"key": "amount", "threshold": 10},
            "copies": 2,
        },
        {
            "name": "stats",
            "type": "stats",
            "params": {"field": "amount"},
            "group": {"by": "city"},
            "log": {"incoming": True},
            "state": {"calc-local": True, "spark-batch": {"update": {"event-count": 100}}},
        },
        {
            "name": "odd",
            "type": "zscore",
            "params": {"field": "amount", "score": 3},
            "collect": [
                {"alias": "count", "from": "stats", "field": "count"},
                {"alias": "avg", "from": "stats", "field": "avg"},
                {"alias": "std", "from": "stats", "field": "sd"},
            ],
        },
        {"name": "file", "type": "log", "params": {"file": "odd.jsonl"}},
    ],
    "links": [
        {"from": "in", "to": "large"},
        {"from": "large", "to": "stats"},
        {"from": "large", "to": "odd"},
        {"from": "odd", "to": "file"},
    ],
    "distribution": {"mode": "duplicate", "copies": 2, "by": "city"},
}


def changed(*changes):
    """The right definition with these changes."""
    whole = copy.deepcopy(RIGHT)
    for path, value in changes:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        if not parts:
            return value
        place = whole
        for part in parts[:-1]:
            place = place[int(part) if isinstance(place, list) else part]
        last = int(parts[-1]) if isinstance(place, list) else parts[-1]
        if value is LEAVE_OUT:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return whole


def deep(levels, kind=list):
    """Lists or objects within each other."""
    value = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


def _each(path, values, kinds):
    return [([(path, value)], kinds) for value in values]


def _actor(kind, params, **more):
    """A further actor behind the last, with these params."""
    actor = {"name": "x", "type": kind, "params": params, **more}
    return [("/actors/5", actor), ("/links/4", {"from": "large", "to": "x"})]


def _types():
    """Wrong types, where each thing stands."""
    rows = _each("", [None, 1, "x", [], True, 1.5], "not-an-object")
    rows += _each("/name", [1, [], {}, True], "runtime-name")
    rows += _each("/name", [None, ""], "no-runtime-name")
    rows += _each("/owner", ["", 5, [], {"$ne": 1}, "../x", "a\r\nb: c", "o" * 257], "owner")
    rows += _each("/projectid", ["", "x", 5, "../etc", "{0}"], "projectid")
    rows += _each(
        "/actors", [None, {}, "x", 5], "no-actors-section unknown-link-actor orphaned-actor"
    )
    rows += _each("/links", [None, {}, "x", 5], "no-links-section")
    rows += _each("/links/0", [None, "in->large", [], 7], "incomplete-link orphaned-actor")
    rows += _each("/distribution", [[], "x", 5, True], "distribution")
    rows += _each("/actors/4/type", [None, 5, [], {}, True, "", "LOG"], "invalid-actor")
    rows += _each("/actors/1/params", [[], "x", 5, True, None], "invalid-actor")
    rows += _each("/actors/1/params/threshold", ["10", None, [], True, {}], "invalid-actor")
    rows += _each("/actors/1/params/key", ["", 5, None, [], "x" * 257], "invalid-actor")
    rows += _each("/actors/1/copies", [0, -1, 1.5, "2", None, 257, True], "copies")
    rows += _each(
        "/actors/2/group",
        [None, {}, {"by": ""}, {"by": 5}, [], "city", {"by": "a", "x": 1}],
        "group",
    )
    rows += _each("/actors/3/log", [[], {"incoming": 1}, {"in": True}, "all", None], "log")
    rows += _each("/actors/2/state", [[], "x", {"spark": True}, {"calc-local": 1}], "state")
    return rows


def _names():
    """Names with separators, paths, and what a terminal or a browser would obey."""
    rows = _each(
        "/name",
        [
            "a-b",
            "a.1",
            "a/b",
            "..",
            "../../etc/passwd",
            "a b",
            "é",
            "a\n",
            "%2e",
            "a\\b",
            "-a",
            "_a",
            "x" * 64,
            "<script>",
            "a;b",
            "$(id)",
            "con.",
            "\u202eabc",
            "a#b",
            "a?b",
            "a%00",
        ],
        "runtime-name",
    )
    bad = ["a.b", "a/b", "..", "a b", "é", "a\n", "-a", "x" * 64, "actors", "total", "<b>", "~"]
    for name in bad:
        rows.append(([("/actors/4/name", name), ("/links/3/to", name)], "actor-name"))
    rows += _each("/actors/4/name", [None, ""], "nameless-actor unknown-link-actor")
    rows += _each("/actors/4/name", [5], "actor-name unknown-link-actor")
    rows.append(([("/actors/4/name", "ODD")], "duplicate-actor unknown-link-actor"))
    rows.append(([("/actors/4/name", "odd")], "duplicate-actor unknown-link-actor"))
    return rows


def _sizes():
    """Too deep, too large, no numbers, no texts."""
    rows = _each("/actors/4/params", [deep(10_000), deep(10_000, dict), deep(40)], "too-large")
    rows += _each(
        "/actors/1/params/threshold", [math.nan, math.inf, -math.inf, 10**400, 2**63], "too-large"
    )
    rows += _each("/owner", ["\ud800", "a\0", "x" * (300 * 1024)], "too-large")
    rows += _each("/actors/4/params", [{str(n): 1 for n in range(10_001)}], "too-large")
    rows += _each("/more", [[0] * 200_001], "too-large")
    rows += _each(
        "/actors",
        [[{"name": f"a{n}"} for n in range(257)]],
        "too-many unknown-link-actor orphaned-actor",
    )
    rows += _each("/links", [[{"from": "in", "to": "large"}] * 2_001], "too-many orphaned-actor")
    rows.append(([("/distribution/copies", 256), ("/actors/1/copies", 256)], "too-many"))
    rows += _each("/distribution/copies", [0, -5, 1.5, 10**9, "2"], "distribution")
    return rows


def _joins():
    """Circles, loose ends, links to where none may lead."""
    rows = [
        ([("/links/4", {"from": "file", "to": "in"})], "cycle"),
        ([("/links/4", {"from": "odd", "to": "odd"})], "cycle"),
        ([("/links/4", {"from": "in", "to": "large"})], "duplicate-link"),
        ([("/links/4", {"from": "in", "to": "large", "x": 1})], "unknown-field"),
        ([("/links/4", {"from": "in"})], "incomplete-link unknown-link-actor"),
        ([("/links/4", {"from": "in", "to": "nobody"})], "unknown-link-actor"),
        ([("/links/4", {"from": ["in"], "to": {}})], "incomplete-link unknown-link-actor"),
        ([("/links/3", LEAVE_OUT)], "orphaned-actor"),
        ([("/links", [])], "no-links orphaned-actor"),
        (
            [
                (
                    "/actors/5",
                    {
                        "name": "g",
                        "type": "generator",
                        "params": {"format": {}, "timer": {"rate": 1}},
                    },
                ),
                ("/links/4", {"from": "in", "to": "g"}),
            ],
            "link-into-source",
        ),
        ([("/actors/2/collect", [{"alias": "a", "from": "odd", "data": {}}])], "collect-aliases"),
        ([("/actors/3/collect/0/from", "nobody")], "collect-unknown-actor"),
        ([("/actors/3/collect/0/from", "odd")], "collect-itself"),
        ([("/actors/3/collect/0/field", "__class__")], "collect-unknown-field"),
        ([("/actors/3/collect/0/field", "a.b")], "collect-name"),
        ([("/actors/3/collect", LEAVE_OUT)], "no-collect"),
    ]
    modes = ["predefined", "local", "random", "least-busy", "split-random", "x", "", 5]
    rows += _each("/distribution/mode", modes, "distribution")
    rows += _each("/distribution/machines", [[{"ip": "10.0.0.1", "port": 1}]], "distribution")
    return rows


def _modes():
    """Modes of state that cannot be."""
    rows = _each(
        "/actors/2/state",
        [
            {"spark-batch": True, "log-batch": True},
            {"calc-local": False},
            {"collect-local": {"update": {"event-count": 1, "duration": {"hours": 1}}}},
            {"collect-local": {"update": {"event-count": 0}}},
            {"collect-local": {"update": {"sliding-window": {"size": 1, "slide": 2}}}},
            {"collect-local": {"update": {"duration": {"seconds": -1}}}},
            {"collect-local": {"update": {"duration": {"months": 1}}}},
            {"collect-local": {"update": {"duration": {}}}},
            {"collect-local": {"update": "now"}},
        ],
        "state",
    )
    rows.append(([("/actors/2/log/incoming", False)], "state"))
    rows.append(([("/actors/1/state", {"calc-local": True})], "state"))
    rows.append(([("/actors/1/timeout", {"duration": 1, "mode": "exit"})], "timeout"))
    rows.append(([("/actors/2/timeout", {"duration": 1, "mode": "exit"})], "timeout"))
    rows.append(([("/actors/2/timeout", {"duration": 0, "mode": "never"})], "timeout"))
    return rows


def _params():
    """Params of each type that are more than data."""
    urls = [
        "file:///etc/passwd",
        "gopher://a.com",
        "http://127.1/",
        "http://u:p@a.com/",
        "//a.com",
        "http://2130706433/",
        "http://a.com\r\nX: y",
        "http://[fe80::1%25a]/",
        "javascript:1",
        "http://a.com:0/",
        "http://ex\u0430mple.com/",
        "http://",
    ]
    client = {"mode": "static", "response": "none", "method": "GET"}
    rows = [(_actor("httpclient", {**client, "url": url}), "invalid-actor") for url in urls]
    rows += [
        (
            _actor("httpclient", {**client, "url": "http://a.com", "headers": headers}),
            "invalid-actor",
        )
        for headers in ({"Host": "b.com"}, {"a": "b\r\nc: d"}, {"": ""}, {"a": 1})
    ]
    rows += [
        (_actor("function", {"function": formula, "outputfield": "x"}), "invalid-actor")
        for formula in (
            "__import__('os').system('id')",
            "().__class__.__bases__",
            "9**9**9**9",
            "(" * 5_000,
            "x if y else z",
            "lambda: 0",
            "f'{x}'",
            "a[0][1]",
            "-" * 100 + "1",
            "1" + "+1" * 5_000,
            "",
        )
    ]
    rows += [
        (_actor("json", {"template": template}), "invalid-actor")
        for template in ({"a": "${x[}"}, {"a": "${__import__('os')}"}, {"a": ["${a b}"]}, "x")
    ]
    rows += [
        (_actor("log", {"file": file}), "invalid-actor")
        for file in ("/etc/passwd", "../x", "a/b", "a\\b", "C:x", ".x", "")
    ]
    rows += [
        (_actor("sql", {"database": "d", "statement": "select 1", **params}), "invalid-actor")
        for params in (
            {"statement": "select 1; drop table x"},
            {"statement": ":a"},
            {"driver": "os"},
            {"database": "postgres://u:p@10.0.0.1/x"},
            {"parameters": {"a": 1}},
        )
    ]
    kafka = {"group.id": "g", "zookeeper.connect": "z"}
    rows += [
        (
            [
                (
                    "/actors/5",
                    {
                        "name": "k",
                        "type": "kafka-consumer",
                        "params": {"topic": "t", "kafka": settings},
                    },
                ),
                ("/links/4", {"from": "k", "to": "large"}),
            ],
            "invalid-actor",
        )
        for settings in (
            {**kafka, "sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule"},
            {**kafka, "": "x"},
            {"group.id": "g"},
            {**kafka, "client.id": 5},
            {**kafka, "client.id": "a\nb"},
        )
    ]
    rows += [
        (_actor(kind, params), "invalid-actor")
        for kind, params in (
            ("sample", {"fraction": 2}),
            ("sample", {}),
            ("window", {"method": "x", "number": 1}),
            ("window", {"method": "count", "number": 10**9}),
            ("window", {"method": "count", "number": 2, "sliding": 3}),
            ("minmax", {"field": "a", "min": 2, "max": 1}),
            ("filter", {"filters": []}),
            ("fsm", {"key": "a", "table": {}, "s0": "a"}),
            ("lookup", {"key": "a"}),
            ("fsm", {"key": "a", "table": {"a": {"b": 1}}, "s0": "a"}),
            ("lookup", {"key": "a", "lookup": {"a": 1}, "function": "check"}),
            ("linearregression", {"intercept": 0, "weights": {}}),
            ("tabulate", {"dimensions": [], "value": "a", "functions": ["sum"]}),
            ("os.system", {}),
            ("cassandra", {}),
            ("atoll.runtime", {}),
            ("../x", {}),
        )
    ]
    rows.append(([("/actors/4/params/eval", "1")], "invalid-actor"))
    rows.append(([("/actors/4/", 1)], "unknown-field"))
    rows += _each("/", [1], "unknown-field")
    rows += _each("/__proto__", [{}], "unknown-field")
    rows += _each("/persistence", [True], "unknown-field")
    return rows


HOSTILE = [*_types(), *_names(), *_sizes(), *_joins(), *_modes(), *_params()]
"""(changes, kinds): all kinds of problems that the definition has, in one text."""

ODD = [
    *(None, True, False, 0, -1, 1.5, 10**30, float("nan"), float("inf"), "", "x", "\0", "\ud800"),
    *("../x", "${a}", "in", "stats", [], {}, [[]], {"": {}}, [None], {"from": "in", "to": "in"}),
    *({"name": "in", "type": "stats"}, "http://127.0.0.1", b"bytes", ("tuple",), {1: 2}, object()),
]
"""Values that hardly any place takes, some of them no JSON."""


def mutated(data, chance):
    """The data with one to three places changed by chance."""
    whole = copy.deepcopy(data)
    for _ in range(chance.randrange(1, 4)):
        place = whole
        while isinstance(place, dict | list) and place:
            names = list(place) if isinstance(place, dict) else list(range(len(place)))
            name = chance.choice(names)
            inner = place[name]
            if not isinstance(inner, dict | list) or not inner or chance.random() < 0.3:
                _mutate(place, name, chance)
                break
            place = inner
    return whole


def _mutate(place, name, chance):
    way = chance.randrange(4)
    if way == 0:
        del place[name]
    elif way == 1 and isinstance(place, dict):
        place[chance.choice(["x", "", "name", "params", "from"])] = place.pop(name)
    elif way == 2 and isinstance(place, list):
        place.append(copy.deepcopy(place[name]))
    else:
        place[name] = chance.choice(ODD)
