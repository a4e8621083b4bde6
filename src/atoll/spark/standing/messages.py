"""What the driver asks of a standing task, and what it answers."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from atoll.beats import Beat
from atoll.microbatch.outcome import ActorFailure, Manifest

Attempt = tuple[int, int, int, int]
"""Which job of which attempt: epoch, microbatch, version of the attempt, job."""


class Hello(msgspec.Struct, frozen=True):
    """What a task says of itself when it comes."""

    host: str
    """The host of its post."""
    number: int
    """Which of that host's posts it is."""
    generation: int
    """Which Spark job of the post it belongs to: the post was manned so often before."""
    trial: int
    """Which time Spark tried it."""
    pid: int


class Work(IntEnum):
    """What a request asks for; of each of its parts."""

    PACK = 1
    """Read a share of the splits and pack the rows for the actors: blobs."""
    ACT = 2
    """Run an actor on blobs: a manifest."""
    DIRECT = 3
    """Run an actor that reads all splits for itself: a manifest."""
    WARM = 4
    """Bring the stores of a unit up to date."""
    PACK_AHEAD = 5
    """As ``PACK`` for an attempt that may come: keep what was packed."""
    DIRECT_AHEAD = 6
    """Read and pack as ``DIRECT`` for an attempt that may come: keep what was packed."""


class Part(msgspec.Struct, frozen=True):
    """One of the things that a request asks for."""

    number: int
    """Of ``PACK`` which share of the splits, else which unit."""
    blobs: list[bytes] = []


class Warming(msgspec.Struct, frozen=True):
    """Which stores of a unit to bring up to date, and to what."""

    commit: int
    timeline: int
    share: tuple[int, int] = (0, 1)
    """Which of its vnodes: from the first number on, each as many further as the second says."""


class Request(msgspec.Struct, frozen=True):
    """All that a post has to do in one round of a job."""

    number: int
    """Higher than those of all requests before, of whatever attempt."""
    work: Work
    digest: str
    """Of the pickled program."""
    program: bytes | None
    """The pickled program; None when the task was given it before."""
    spec: bytes
    """The pickled job spec; of ``WARM`` an encoded :class:`Warming`."""
    parts: list[Part]


class Result(msgspec.Struct, frozen=True):
    """What came of one part."""

    part: int
    """Its number."""
    blobs: list[tuple[int, bytes]] = []
    """The unit of each."""
    manifest: Manifest | None = None
    failure: ActorFailure | None = None
    ahead: bool = False
    """Whether its rows were read before the attempt."""


class Reply(msgspec.Struct, frozen=True):
    """What came of a request."""

    number: int
    """The request's."""
    attempt: Attempt | None
    """What was worked on; None of what belongs to no attempt."""
    results: list[Result] = []
    """Of all parts, in the order of the request."""
    unknown: bool = False
    """The task has forgotten the program: ask again, with it."""
    failure: ActorFailure | None = None
    """Of all parts: nothing was begun."""
    beat: Beat | None = None
    """No reply yet: what the task is at."""
