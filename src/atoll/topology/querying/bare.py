"""Rows without columns: what a query without parameters begins with.

Arrow counts no rows without columns, so one column stands in for none, until a step adds another.
No function of the user's, no message and no answer shows it.
"""

from __future__ import annotations

import pyarrow as pa

from atoll.topology.usercode import NO_COLUMN


def is_bare(rows: pa.Schema) -> bool:
    """Whether rows of these columns have none that a user knows of."""
    return bool(rows.names == [NO_COLUMN])


def known_columns(rows: pa.Schema) -> pa.Schema:
    """The columns that users know of."""
    return pa.schema([field for field in rows if field.name != NO_COLUMN])


def shown(rows: pa.Schema) -> str:
    """The columns' names, as messages list them."""
    return ", ".join(known_columns(rows).names) or "none"
