"""Dividing planned rows among reading tasks: none lost, none twice, order kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atoll.depot.segments.blocks import BlockRef
from atoll.engine.splits import cut_blocks, divide, join_splits
from atoll.pstate.store.history import FileRef

blocks = st.dictionaries(st.integers(0, 3), st.lists(st.integers(1, 50), max_size=8), max_size=4)


@given(blocks, st.integers(1, 6))
def test_every_row_is_read_once_in_order_and_shares_are_even(sizes, tasks):
    """Rows laid end to end over the tasks are the blocks' rows laid end to end."""
    refs = {
        origin: [BlockRef(f"{origin}", index, 1, 1, rows + 9, 4, rows)
                 for index, rows in enumerate(counts)]
        for origin, counts in sizes.items()
    }  # fmt: skip
    shares = cut_blocks(refs, tasks)
    assert len(shares) == tasks
    expected = [
        (ref.file, ref.position, ref.skip + row)
        for each in refs.values()
        for ref in each
        for row in range(ref.take)
    ]
    read = [
        (ref.file, ref.position, ref.skip + row)
        for share in shares
        for split in share
        for ref in split.blocks
        for row in range(ref.take)
    ]
    assert expected == read
    counts = [sum(r.take for s in share for r in s.blocks) for share in shares]
    assert max(counts) - min(counts) <= 1
    assert all(str(split.origin) == ref.file for s in shares for split in s for ref in split.blocks)


@given(blocks, st.integers(1, 6), st.integers(0, 99))
def test_rows_are_numbered_by_origin(sizes, tasks, first):
    """However the shares are cut, the n-th row of an origin has the n-th number."""
    refs = {
        origin: [BlockRef("f", index, 1, 1, rows, 0, rows) for index, rows in enumerate(counts)]
        for origin, counts in sizes.items()
    }
    numbers = {origin: [] for origin in sizes}
    for share in cut_blocks(refs, tasks, dict.fromkeys(sizes, first)):
        for split in share:
            rows = sum(ref.take for ref in split.blocks)
            numbers[split.origin].extend(range(split.first, split.first + rows))
    for origin, counts in sizes.items():
        assert numbers[origin] == list(range(first, first + sum(counts)))


@given(st.integers(0, 9), st.integers(1, 4))
def test_staged_files_are_read_once_in_order(count, tasks):
    """Each file belongs to one task, and the tasks' order is the files' order."""
    files = [FileRef(str(number), 1, 1, 1) for number in range(count)]
    shares = join_splits(tuple(() for _ in range(tasks)), {7: files})
    assert [file for share in shares for split in share for file in split.files] == files


def test_a_handful_of_rows_is_no_work_for_many():
    """One task reads little; many rows use the parallelism there is."""
    assert divide(0, 4, 5000) == 1
    assert divide(5000, 4, 5000) == 1
    assert divide(10_001, 4, 5000) == 3
    assert divide(10**9, 4, 5000) == 4
