"""Steps that choose, view, collect and write, whatever the value is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from atoll.errors import PathError
from atoll.path.steps import (
    COMPARISONS,
    Navigator,
    Step,
    Steps,
    checked_function,
    checked_paths,
)


class ControlSteps(Steps):
    """Filters, views, branches, collected values and terms."""

    __slots__ = ()

    # Filters ----------------------------------------------------------------------------------

    def filter(self, comparison: str | Callable[[Any], Any], *value: Any) -> Self:
        """Go on only from values for which a function, or a comparison, says yes.

        ``filter(">", 10)`` compares with a value; ``filter(lambda v: v % 2)`` calls. None
        passes no comparison but ``==`` and ``!=``.
        """
        if callable(comparison) and not value:
            return self._add(Step("filter", (comparison,)))
        if comparison in COMPARISONS and len(value) == 1:
            return self._add(Step("filter", (comparison, value[0])))
        raise PathError(
            "a filter is a function, or a comparison and a value",
            hint=f"for example filter('>', 10); the comparisons are {' '.join(COMPARISONS)}",
        )

    def filter_selected(self, path: Any) -> Self:
        """Go on only from where a path leads anywhere."""
        return self._add(Step("filter_selected", checked_paths("filter_selected", path)))

    def filter_not_selected(self, path: Any) -> Self:
        """Go on only from where a path leads nowhere."""
        return self._add(Step("filter_not_selected", checked_paths("filter_not_selected", path)))

    # Views ------------------------------------------------------------------------------------

    def null_to(self, value: Any) -> Self:
        """To this value in place of None."""
        return self._add(Step("null_to", (value,)))

    def null_to_list(self) -> Self:
        """To an empty list in place of None."""
        return self._add(Step("null_to_list"))

    def null_to_set(self) -> Self:
        """To an empty set in place of None."""
        return self._add(Step("null_to_set"))

    def view(self, function: Callable[..., Any], *arguments: Any) -> Self:
        """To ``function(value, *arguments)``. A transform puts what becomes of that here."""
        return self._add(Step("view", (checked_function("view", function), *arguments)))

    def transformed(self, path: Any) -> Self:
        """To the value as a path that ends in a term would leave it; nothing is written."""
        return self._add(Step("transformed", checked_paths("transformed", path)))

    # Branches ---------------------------------------------------------------------------------

    def stay(self) -> Self:
        """To where it is."""
        return self

    def stop(self) -> Self:
        """Nowhere."""
        return self._add(Step("stop"))

    def if_path(self, condition: Any, then: Any, otherwise: Any = None) -> Self:
        """Along ``then`` where ``condition`` leads anywhere, else along ``otherwise``, if given."""
        paths = (condition, then) if otherwise is None else (condition, then, otherwise)
        return self._add(Step("if_path", checked_paths("if_path", *paths)))

    def multi_path(self, *paths: Any) -> Self:
        """To everything that each of these paths leads to from here, one after the other."""
        return self._add(Step("multi_path", checked_paths("multi_path", *paths)))

    def subselect(self, path: Any) -> Self:
        """To one list of everything that a path leads to.

        A transform puts the elements of the list that it makes back to their places, one by
        one; where it is shorter the remaining ones are deleted.
        """
        return self._add(Step("subselect", checked_paths("subselect", path)))

    # Collected values ---------------------------------------------------------------------------

    def collect(self, path: Any) -> Self:
        """Stay, and put the list of all that a path leads to before the result.

        Each result is then a tuple of everything collected and the value; the function of a
        ``term`` takes what was collected before the value.
        """
        return self._add(Step("collect", checked_paths("collect", path)))

    def collect_one(self, path: Any) -> Self:
        """As :meth:`collect`, the one value that the path must lead to."""
        return self._add(Step("collect_one", checked_paths("collect_one", path)))

    def put_collected(self, value: Any) -> Self:
        """As :meth:`collect`, this value."""
        return self._add(Step("put_collected", (value,)))

    def dispense_collected(self) -> Self:
        """Stay, and forget what was collected."""
        return self._add(Step("dispense_collected"))

    def is_collected(self, function: Callable[..., Any]) -> Self:
        """Go on only where a function of all that was collected says yes."""
        return self._add(Step("is_collected", (checked_function("is_collected", function),)))

    # Terms and others ---------------------------------------------------------------------------

    def term(self, function: Callable[..., Any], *arguments: Any) -> Self:
        """Write ``function(*collected, value, *arguments)``; VOID deletes. The last step."""
        return self._add(Step("term", (checked_function("term", function), *arguments)))

    def set(self, value: Any) -> Self:
        """Write this value, without reading what was there. The last step."""
        return self._add(Step("set", (value,)))

    def delete(self) -> Self:
        """Delete from what contains it, with everything below. The last step."""
        return self._add(Step("delete"))

    def custom(self, navigator: Navigator) -> Self:
        """Go on as an object with ``select`` and ``transform`` says; see :class:`Navigator`."""
        if not isinstance(navigator, Navigator):
            raise PathError(
                f"custom takes an object with select and transform, not {navigator!r}",
                hint="see path.Navigator",
            )
        return self._add(Step("custom", (navigator,)))
