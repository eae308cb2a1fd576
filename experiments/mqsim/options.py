"""The option that names MQSim's program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from experiments.registry import option
from flashwright._core import InputError

MQSIM = option("--mqsim", "", click.STRING, "The program MQSim.")


def program_of(options: Mapping[str, Any], name: str) -> Path:
    """Give the program that a set was given. Raises InputError if it was given none."""
    if not options["mqsim"]:
        raise InputError(f"{name}: give --mqsim PATH, the program")
    return Path(options["mqsim"]).resolve()
