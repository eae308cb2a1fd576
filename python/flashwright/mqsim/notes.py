"""Translation of each key of MQSim's: its counterpart here, or why it has none."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from flashwright.mqsim.keys import Values


@dataclass(frozen=True)
class Told:
    """A key that has a counterpart."""

    key: str
    value: str
    line: int | None
    """Its line; None if the file leaves it out, and MQSim takes this value by itself."""
    to: str
    remark: str = ""
    """Difference in meaning."""


@dataclass(frozen=True)
class Untold:
    """A key that has no counterpart, or whose meaning is lost in part."""

    key: str
    value: str
    line: int | None
    reason: str


@dataclass
class Notes:
    """Translation of the keys of one element."""

    values: Values
    told: list[Told] = field(default_factory=list)
    untold: list[Untold] = field(default_factory=list)

    def tell(self, key: str, to: str, remark: str = "") -> None:
        """Note the counterpart of a key."""
        values = self.values
        said = self._with_spelling(key, remark)
        self.told.append(
            Told(values.spelled(key), values.said(key), values.lines.get(key), to, said)
        )

    def leave(self, key: str, reason: str) -> None:
        """Note why a key has no counterpart."""
        values = self.values
        said = self._with_spelling(key, reason)
        self.untold.append(
            Untold(values.spelled(key), values.said(key), values.lines.get(key), said)
        )

    def _with_spelling(self, key: str, said: str) -> str:
        if self.values.spelled(key) == key:
            return said
        spelling = f"MQSim's program passes over this spelling: it reads {key}"
        return f"{said}; {spelling}" if said else spelling

    def leave_unknown(self) -> None:
        """Note the keys that MQSim passes over."""
        for one in self.values.unknown:
            reason = "MQSim has no such key, and passes over it, too"
            self.untold.append(Untold(one.name, one.value, one.line, reason))

    def document(self) -> dict[str, Any]:
        """Tell it for JSON."""
        return {
            "translated": [asdict(one) for one in self.told],
            "not_translated": [asdict(one) for one in self.untold],
        }
