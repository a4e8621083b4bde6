"""Holds the glossary against itself and the code: no word stands twice, and each is one of ours."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TWICE = {"root", "revision"}
"""Words of two meanings, each of which says so in its row: ``revision of a plan`` has its own."""

PHRASES = {"internal view", "as of a time"}
"""Of these the source speaks in other words: of attempts, and of what held at some time."""


def rows():
    """The words of each row, with what it says of them."""
    page = (ROOT / "docs/concepts/glossary.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (?!word \|)([A-Za-z][^|]*) \| ([^\n]*) \|$", page, re.MULTILINE)
    return [([each.strip() for each in words.split(",")], told) for words, told in found]


def test_no_word_stands_in_two_rows():
    """One word per concept."""
    counts = Counter(word for words, _ in rows() for word in words)
    assert len(counts) > 100
    assert {word for word, count in counts.items() if count > 1} <= TWICE


def test_every_word_is_one_that_the_source_uses():
    """In names or in sentences about them, written together or apart."""
    text = "\n".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "src" / "atoll").rglob("*.py")
    )
    plain = re.sub(r"[\s_-]+", "", text).casefold()
    words = {word for words, _ in rows() for word in words} - PHRASES
    assert not [word for word in words if re.sub(r"[\s-]+", "", word).casefold() not in plain]


def test_classes_that_are_concepts_are_in_it():
    """The nouns that modules are named for, of the parts in which words are coined."""
    told = {part for words, _ in rows() for word in words for part in word.casefold().split()}
    coined = {
        "cluster/scaling": {"trials", "revisions"},
        "depot": {"mirror", "receipt", "migration"},
        "engine": {"actor", "attempt", "program"},
        "engine/exchange": {"blobs", "waybills"},
        "microbatch/commits": {"checkpoints", "commit", "horizon", "timelines"},
        "placement": {"fragments", "mapping", "placement", "vnodes", "workers"},
        "placement/policies": {"policy", "shortage"},
        "spark/standing": {"post"},
        "steps/windows": {"watermark", "window"},
        "pstate/store": {"changefile", "entries", "reverse_log"},
    }
    for folder, names in coined.items():
        there = {file.stem for file in (ROOT / "src" / "atoll" / folder).glob("*.py")}
        assert names <= there, f"{folder} has changed: {names - there}"
        for name in names:
            words = {"changefile": "change file", "reverse_log": "reverse log"}.get(name, name)
            for word in words.split():
                singular = {"entries": "entry"}.get(word, word.removesuffix("s"))
                assert told & {word, singular}, f"{folder}/{name} is not in the glossary"
