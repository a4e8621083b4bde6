"""Looks whether the segments that a depot's writer knows are still in its folder.

The writer keeps in memory what it wrote, and looks at a file again only to read records from it.
"""

from __future__ import annotations

from atoll.depot.segments.chain import SegmentChain


def lost_segments(chain: SegmentChain) -> list[str]:
    """What is wrong with the segments' files by presence and size, a line for each file."""
    with chain.lock:
        headers, tail = list(chain.headers), chain.tail
        lengths = [header.previous_length for header in headers[1:]]
        lengths += [] if tail is None else [tail.valid_length]
    found = []
    for header, length in zip(headers, lengths, strict=True):
        path = chain.path(header.number)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = -1
        except OSError as error:
            found.append(f"{path.name} cannot be looked at: {error.strerror}")
            continue
        if size < length and header in chain.headers:  # it may have been trimmed meanwhile
            short = f"has {size} bytes instead of {length}"
            found.append(f"{path.name} {'is missing' if size < 0 else short}")
    return found
