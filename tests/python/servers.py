"""A PostgreSQL server for tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashwright import InputError
from flashwright.workloads.databases.server import find_binaries, psycopg, server_account


def find_server() -> Path:
    """Gives the folder of PostgreSQL's programs.

    Without it, or its driver, the test fails in CI and is skipped elsewhere.
    """
    try:
        psycopg()
        return find_binaries(account=server_account())
    except InputError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
