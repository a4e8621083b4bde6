"""Random definitions and events, for tests that hold the engine against the plain interpreter."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = "abcdef"
FIELD = st.sampled_from(["x", "y", "k"])
NUMBER = st.integers(-5, 25) | st.floats(-5, 25, allow_nan=False).map(lambda v: round(v, 3))
TEXT = st.sampled_from(["red", "green", "blue", "reddish"])


@st.composite
def events(draw, count_max=40):
    """Events some of whose fields are missing, null or of another type."""
    value = NUMBER | TEXT | st.none() | st.booleans()
    made = st.dictionaries(FIELD, value, max_size=3)
    return draw(st.lists(made, min_size=1, max_size=count_max))


STATELESS = st.one_of(
    st.builds(
        lambda key, least: {"type": "threshold", "params": {"key": key, "threshold": least}},
        FIELD,
        st.integers(-5, 20),
    ),
    st.builds(
        lambda how, field, param: {
            "type": "filter",
            "params": {
                "filters": [{"type": "startswith", "function": how, "field": field, "param": param}]
            },
        },
        st.sampled_from(["include", "exclude"]),
        FIELD,
        st.sampled_from(["r", "red", "b"]),
    ),
    st.builds(
        lambda field: {"type": "minmax", "params": {"field": field, "min": 0, "max": 10}}, FIELD
    ),
    st.builds(
        lambda fraction: {"type": "sample", "params": {"fraction": fraction}},
        st.sampled_from([0.2, 0.8]),
    ),
    st.just({"type": "json", "params": {"template": {"x": "${x}", "k": "${k}", "one": 1}}}),
    st.builds(
        lambda how: {
            "type": "lookup",
            "params": {
                "key": "k",
                "function": how,
                "lookup": {"red": {"y": 1}, "green": {"y": 20}, "7": {"k": "blue"}},
            },
        },
        st.sampled_from(["enrich", "filter", "check"]),
    ),
)
STATEFUL = st.one_of(
    st.builds(lambda field: {"type": "stats", "params": {"field": field}}, FIELD),
    st.builds(
        lambda number: {"type": "window", "params": {"method": "count", "number": number}},
        st.integers(1, 4),
    ),
    st.just(
        {
            "type": "fsm",
            "params": {
                "key": "k",
                "s0": "off",
                "table": {"off": {"red": "on"}, "on": {"green": "off", "blue": "lost"}},
            },
        }
    ),
)
MODES = st.sampled_from(
    [
        None,
        {"calc-local": False, "collect-local": {"update": {"event-count": 3}}},
        {"collect-local": {"update": {"sliding-window": {"size": 4, "slide": 2}}}},
        {"calc-local": False, "collect-local": True},
    ]
)


@st.composite
def actors(draw, name):
    """One actor: stateless, or stateful with groups, copies and modes."""
    if draw(st.booleans()):
        made = dict(draw(STATELESS))
    else:
        made = dict(draw(STATEFUL))
        if draw(st.booleans()):
            made["group"] = {"by": draw(FIELD)}
        modes = draw(MODES)
        if modes is not None and made["type"] == "stats":
            made["state"] = modes
    made["copies"] = draw(st.integers(1, 3))
    return {"name": name, **made, "log": {"outgoing": True}}


@st.composite
def definitions(draw):
    """A graph of two to six actors without circles; sometimes one collects from a sibling."""
    count = draw(st.integers(2, 6))
    made = [draw(actors(NAMES[at])) for at in range(count)]
    links = [
        {"from": NAMES[draw(st.integers(0, at - 1))], "to": NAMES[at]} for at in range(1, count)
    ]
    more = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    for first, second in more:
        link = {"from": NAMES[first], "to": NAMES[second]}
        if first < second and link not in links:
            links.append(link)
    siblings = [each for each in made if each["type"] == "stats"]
    if siblings and draw(st.booleans()):
        source = draw(st.sampled_from(siblings))["name"]
        collect = [
            {"alias": alias, "from": source, "field": field}
            for alias, field in (("count", "count"), ("avg", "avg"), ("std", "sd"))
        ]
        made.append(
            {
                "name": "z",
                "type": "zscore",
                "params": {"field": "x", "score": 0.5},
                "collect": collect,
                "log": {"outgoing": True},
            }
        )
        links.append({"from": NAMES[0], "to": "z"})
    return {"name": "r", "actors": made, "links": draw(st.permutations(links))}
