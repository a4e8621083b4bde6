"""Which parcel a sink gets next, given what it holds and what was noted. Pure."""

from __future__ import annotations

from atoll.errors import SinkError


def next_parcel(held: int | None, noted: int, last: int) -> int:
    """The number of the first parcel to write.

    The target's word counts, where it has one: a process may have died after it wrote and before
    that was noted. But it cannot hold less than was noted, whose rows are gone, nor more than was
    ever made.

    Args:
        held: The last parcel that the target says it holds; None when it keeps no number.
        noted: The last one that was noted as written.
        last: The last one that was made; 0 for none.

    Raises:
        SinkError: When the target holds what it cannot: nothing is written to it then.
    """
    if held is None:
        return noted + 1
    if held < noted:
        raise SinkError(
            f"the target holds parcels up to {held}, but {noted} were written to it: it is another "
            "one, or was taken back to an earlier copy",
            hint="give the sink the target that it wrote to before; to begin with an empty one, "
            "declare the sink under another name and remove this one",
            held=held,
            noted=noted,
        )
    if held > max(last, noted):
        raise SinkError(
            f"the target holds parcels up to {held}, but only {max(last, noted)} were ever made "
            "here: this root was taken back to an earlier copy",
            hint="take the target back to the same moment; or declare the sink under another name "
            "and remove this one",
            held=held,
            made=max(last, noted),
        )
    return held + 1
