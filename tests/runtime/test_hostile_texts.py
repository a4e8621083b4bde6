"""Holds that no text from outside takes long to be read, whatever it was made for."""

from __future__ import annotations

import random
import time

import pytest

from atoll.outside.urls import url_misfit
from atoll.runtime.actors.generator import make
from atoll.runtime.actors.sql import parameters_in
from atoll.runtime.definition.read import check_definition
from atoll.runtime.formulas.parse import Malformed, parse_formula
from atoll.runtime.paths import parse_path

SIZE = 100 * 1024
SECONDS_MAX = 0.5
"""A hundred times what each takes alone, since other work may share the machine."""

PIECES = [
    *("'", '"', "/*", "--", ":", "::", ";", " ", "\n", "a", "0", ".", "[", "]", "['a'", ", 'a'"),
    *("${", "}", "N(", "U(1", "http://", "a.", "@", "%", "(", ")", "!", "-", "+1", "''", "'a',"),
]
TEXTS = [piece * (SIZE // len(piece)) for piece in PIECES]
TEXTS += [head + text for head in ("['a'", "N(1", "http://", "'", "a.") for text in TEXTS]


def _formula(text):
    try:
        parse_formula(text)
    except Malformed:
        return


READERS = {
    "generator": lambda text: make(text, random.Random(1)),
    "sql": parameters_in,
    "formula": _formula,
    "path": parse_path,
    "url": url_misfit,
    "definition": lambda text: check_definition(
        {
            "name": text,
            "actors": [{"name": text, "type": text, "params": {text: text}}],
            "links": [{"from": text, "to": text}],
        }
    ),
}


@pytest.mark.parametrize("name", sorted(READERS))
def test_hostile_texts_are_soon_read(name):
    """A hundred kibibytes of each piece, alone and behind what begins well."""
    for text in TEXTS:
        started = time.perf_counter()
        READERS[name](text)
        assert time.perf_counter() - started < SECONDS_MAX, text[:20]
