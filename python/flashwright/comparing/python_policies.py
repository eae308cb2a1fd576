"""Placement policies in Python among the built-in ones: from a file, copied for each run."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TextIO

from flashwright._core import InputError

if TYPE_CHECKING:
    from flashwright.placement import Placement

_SUFFIX = ".py"
_lock = threading.Lock()
_printing: list[TextIO] = []
"""Standard output as it was before each of those that run policies now."""


@contextmanager
def prints_aside() -> Iterator[None]:
    """Send what a policy prints to standard error: results go to standard output."""
    with _lock:
        _printing.append(_printing[0] if _printing else sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _lock:
            before = _printing.pop()
            if not _printing:
                sys.stdout = before


def is_file(name: str) -> bool:
    """Tell whether the name of a policy is `FILE.py` or `FILE.py:CLASS`."""
    file, colon, _ = name.rpartition(":")
    return name.endswith(_SUFFIX) or (bool(colon) and file.endswith(_SUFFIX))


def load(name: str) -> Placement:
    """Make the policy that `FILE.py:CLASS` names; `FILE.py` will do for one with a single class.

    The file is run, as `import` does.

    Raises InputError if there is no such file or class, or it cannot be made without arguments.
    """
    from flashwright.placement import Placement

    file, _, wanted = (name, "", "") if name.endswith(_SUFFIX) else name.rpartition(":")
    path = Path(file)
    try:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{name}: cannot read the policy: {path}: {error.strerror}") from error
    found = {
        key: value
        for key, value in vars(_run(path, content, name)).items()
        if isinstance(value, type) and issubclass(value, Placement) and value is not Placement
    }
    if not found:
        raise InputError(f"{name}: {path} has no class made from flashwright.Placement")
    if not wanted and len(found) > 1:
        raise InputError(
            f"{name}: {path} has {', '.join(found)}; name one, as {path}:{next(iter(found))}"
        )
    kind = found.get(wanted) if wanted else next(iter(found.values()))
    if kind is None:
        raise InputError(f"{name}: {path} has no policy {wanted}; there is {', '.join(found)}")
    try:
        with prints_aside():
            policy = kind()
    except Exception as error:
        raise InputError(f"{name}: it cannot be made: {raised_by(error)}") from error
    policy.content, policy.file = content, str(path)
    return policy


def _run(path: Path, content: str, name: str) -> ModuleType:
    # A name of its own, so that it hides nothing; known to whoever looks a class up by its module.
    module_name = f"flashwright_policy_{content[:16]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{name}: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with prints_aside():
            spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        beside = path.with_name(f"{error.name}.py")
        more = f"; {beside} is not taken: a policy is one file" if beside.exists() else ""
        raise InputError(f"{name}: {raised_by(error)}{more}") from error
    except Exception as error:
        raise InputError(f"{name}: {raised_by(error)}") from error
    return module


def copy_of(policy: Placement) -> Placement:
    """Give a copy for a run of its own, as others may go on beside it.

    Raises InputError if it cannot be copied.
    """
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        raise InputError(
            f"{policy.name}: each run gets a copy of the policy, and it cannot be copied "
            f"({raised_by(error)}); make what it holds in `begin`"
        ) from error


def raised_by(error: BaseException) -> str:
    """Say in one line what was raised, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        where = f" ({Path(error.filename or '').name}, line {error.lineno})"
        return f"{type(error).__name__}: {error.msg}{where}"
    return f"{type(error).__name__}: {error}{where}"
