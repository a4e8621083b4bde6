"""How tests state that a declaration is refused: on its own line, with what to do."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from pathlib import Path

import pytest

from atoll.errors import DeclarationError


@contextmanager
def refused(*words, lines=1):
    """The block raises a DeclarationError that names its first line and holds these words.

    ``lines`` is how many lines the statement under test has: the place may be any of them.
    """
    frame = inspect.currentframe().f_back.f_back
    file, began = Path(frame.f_code.co_filename).name, frame.f_lineno
    with pytest.raises(DeclarationError) as caught:
        yield
    error = caught.value
    name, _, line = str(error.context.get("declared", "missing:0")).rpartition(":")
    assert name == file, error
    assert began < int(line) <= began + lines, error
    assert error.hint, error
    for word in words:
        assert word in str(error), error
