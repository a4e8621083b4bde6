"""Leave columns out: ``stream.drop("body", "headers")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import DeclarationError
from atoll.topology.expressions import is_computed, quoted
from atoll.topology.operator import ColumnOperator
from atoll.topology.usercode import HIDDEN_COLUMN, NO_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True, eq=False)
class Drop(ColumnOperator):
    """All columns but those named, each of which must be there."""

    compiles: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    names: tuple[str, ...]

    def kept(self, known: Sequence[str]) -> list[str]:
        """The columns that stay.

        Raises:
            DeclarationError: When one is named that is not there, or none stays.
        """
        hidden = {name for name in known if name in (HIDDEN_COLUMN, NO_COLUMN) or is_computed(name)}
        shown = [name for name in known if name not in hidden]
        gone = {self._found(name, shown) for name in self.names}
        if gone.issuperset(shown) or not gone:
            raise DeclarationError(
                "drop leaves no column" if gone else "drop names no column",
                hint=f"the columns are {', '.join(shown) or 'none'}",
                declared=self.place,
            )
        return [name for name in known if name not in gone]

    def _found(self, name: str, shown: Sequence[str]) -> str:
        """The column of a name; letters' case means nothing, as in Spark."""
        found = [each for each in shown if each == name]
        found = found or [each for each in shown if each.lower() == str(name).lower()]
        if len(found) != 1:
            raise DeclarationError(
                f"drop names the column {name!r}, which the rows before it do not have",
                hint=f"they have {', '.join(shown) or 'none'}",
                declared=self.place,
            )
        return found[0]

    def in_task(self, rows: pa.Schema, made: pa.Schema | None = None) -> BatchOperator:
        """The columns that stay."""
        from atoll.steps.columns.computing import selecting

        return selecting(self, [quoted(name) for name in self.kept(rows.names)], rows, made)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow projection."""
        return frames[0].select(*map(quoted, self.kept(frames[0].columns)))
