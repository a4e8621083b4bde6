"""Looks whether the segments that a depot's writer knows are still in its folder.

The writer keeps in memory what it wrote, and looks at a file again only to read records from it.
"""

from __future__ import annotations

from atoll.depot.segments.chain import SegmentChain
from atoll.depot.segments.index import SEGMENTS_FOLDER, segment_file_name
from atoll.errors import StorageError


def lost_segments(chain: SegmentChain) -> list[str]:
    """What is wrong with the segments' files by presence and size, a line for each file."""
    with chain.lock:
        headers, tail = list(chain.headers), chain.tail
        lengths = [header.previous_length for header in headers[1:]]
        lengths += [] if tail is None else [tail.valid_length]
    try:
        sizes = chain.store.sizes(SEGMENTS_FOLDER)
    except StorageError as error:
        return [f"{SEGMENTS_FOLDER} cannot be looked at: {error.message}"]
    found = []
    for header, length in zip(headers, lengths, strict=True):
        name = segment_file_name(header.number)
        size = sizes.get(name, -1)
        if size < length and header in chain.headers:  # it may have been trimmed meanwhile
            short = f"has {size} bytes instead of {length}"
            shown = name.rpartition("/")[2]
            found.append(f"{shown} {'is missing' if size < 0 else short}")
    return found
