"""Find the module that a command names: ``file.py:attribute`` or ``package.module:attribute``.

The file's folder, or the present one for a package, goes to the front of the import path, as it
does for a script, so that the module's own imports work. The functions in it are sent to Spark's
Python workers by value: they need no import path of their own there.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from atoll.errors import AtollError, NotFoundError, UsageError

if TYPE_CHECKING:
    from atoll.module import Module


_FORM = "write FILE.py:NAME or PACKAGE.MODULE:NAME, for example examples/key_pairs.py:module"


def load_module(target: str, *, again: bool = False) -> Module:
    """Import what the target names and return the Atoll module in it.

    Without ``:attribute`` the attribute is ``module``.

    Args:
        target: What a command names.
        again: Read the files again that were imported before, those beside the target too.

    Raises:
        UsageError: When the target is not of that form, or its code fails to import.
        NotFoundError: When there is no such file, package or attribute.
    """
    place, _, attribute = target.partition(":")
    attribute = attribute or "module"
    if not place or not attribute.isidentifier():
        raise UsageError(f"{target!r} names no module", hint=_FORM)
    if again:
        _forget(Path(place).resolve().parent if place.endswith(".py") else Path.cwd())
    found = _import_file(Path(place)) if place.endswith(".py") else _import_package(place)
    return _attribute(found, place, attribute)


def _forget(folder: Path) -> None:
    """Let the modules below a folder be imported anew; installed packages are none of them."""
    importlib.invalidate_caches()
    for name, known in list(sys.modules.items()):
        file = getattr(known, "__file__", None)
        if file is None or name == "__main__" or name.partition(".")[0] == "atoll":
            continue
        path = Path(file)
        if path.is_relative_to(folder) and "site-packages" not in path.parts:
            del sys.modules[name]


def _attribute(found: ModuleType, place: str, attribute: str) -> Module:
    from atoll.module import Module

    value = getattr(found, attribute, None)
    if isinstance(value, Module):
        return value
    names = [name for name, item in vars(found).items() if isinstance(item, Module)]
    hint = f"it has: {', '.join(names)}" if names else "it has none: module = atoll.Module('name')"
    if value is None:
        raise NotFoundError(f"{place} has no {attribute!r}", hint=hint, target=place)
    raise UsageError(
        f"{place}:{attribute} is no atoll.Module but {type(value).__name__}", hint=hint
    )


def _import_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}", hint=_FORM, file=str(file))
    file = file.resolve()
    sys.path.insert(0, str(file.parent))
    name = file.stem if file.stem.isidentifier() else "atoll_target"
    if name in sys.modules:  # a file named like a module that is in use must not replace it
        name = f"atoll_target_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} cannot be imported", hint=_FORM, file=str(file))
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    try:
        spec.loader.exec_module(found)
    except AtollError:
        raise
    except Exception as error:
        raise _failed(str(file), error) from error
    return found


def _import_package(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except AtollError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise NotFoundError(f"there is no Python module {name!r}", hint=_FORM) from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(place: str, error: Exception) -> UsageError:
    """What importing raised, with the last line of the user's own code on the way there."""
    line = _line_of(error, place) or place
    message = str(error).splitlines()
    hint = "mend the code at that line"
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        hint = f"install what has the Python module {package!r}, or mend the import at that line"
    return UsageError(
        f"{place} fails to import: {type(error).__name__}: {message[0] if message else ''}",
        hint=hint,
        line=line,
    )


def _line_of(error: Exception, place: str) -> str | None:
    """Where the user's code failed, or called what failed: no library can be mended there.

    An installed package that the target itself is in is the user's, too.
    """
    if isinstance(error, SyntaxError) and _is_own(error.filename):
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame.filename)]
    if not own and not place.endswith(".py"):
        package = place.partition(".")[0]
        own = [each for each in frames if package in {*Path(each.filename).parts}]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else None


def _is_own(file: str | None) -> bool:
    """Whether a file is the user's: neither Python's, nor Atoll's, nor an installed package's."""
    if file is None or file.startswith("<"):
        return False
    path = Path(file).resolve()
    libraries = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    libraries.add(Path(__file__).resolve().parents[1])
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not installed and not any(path.is_relative_to(each) for each in libraries)
