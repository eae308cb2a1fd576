"""Actions of advice, one file each."""

from __future__ import annotations

from collections.abc import Sequence

from flashwright.advice.action import Action

ALL: Sequence[Action] = ()
