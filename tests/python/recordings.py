"""What tests of recordings share."""

from __future__ import annotations

import os

import pytest

TRACER = pytest.mark.xdist_group("tracer")
"""A test that uses the kernel's tracer, of which there is one: such tests run in turn."""


def require(is_there: bool, what: str) -> None:
    """Go on only with a real part; without it the test fails in CI and is skipped elsewhere."""
    if not is_there:
        if os.environ.get("CI"):
            pytest.fail(what)
        pytest.skip(what)
