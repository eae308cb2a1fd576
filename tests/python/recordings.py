"""Common parts of tests of recordings."""

from __future__ import annotations

import os

import pytest


def require(is_there: bool, what: str) -> None:
    """Go on only with a real part; without it the test fails in CI and is skipped elsewhere."""
    if not is_there:
        if os.environ.get("CI"):
            pytest.fail(what)
        pytest.skip(what)
