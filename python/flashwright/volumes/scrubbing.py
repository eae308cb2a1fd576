"""One pass over all that has checksums in a volume, followed from outside."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from flashwright._core import Cancelled, InputError, RunError

_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class LayerScrub:
    """Progress of the scrub of one layer."""

    level: int
    layer: str
    pages_left: int
    pages_read: int
    """Pages read since the volume was opened."""
    page_bytes: int
    bad_pages: int
    """Pages known not to be what was written."""
    unread_pages: int
    """Pages that the last pass could not read: they may be well when the device is."""
    bad: list[tuple[int, int]] = field(default_factory=list)
    """First byte and bytes of both, in the layer's own addresses: at most 100 places."""

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.layer} ({self.level})"


@dataclass(frozen=True)
class Scrub:
    """Progress of the scrub of a volume."""

    is_on: bool
    passes: int
    """Passes that ended since the volume was opened."""
    last_unix_s: int
    layers: list[LayerScrub]
    broken: str | None

    @classmethod
    def parse(cls, text: str) -> Scrub:
        """Read the answer of a server, or of a volume."""
        answer = json.loads(text)
        layers = [
            LayerScrub(**{**one, "bad": [(first, length) for first, length in one["bad"]]})
            for one in answer.pop("layers")
        ]
        return cls(layers=layers, **answer)

    @property
    def left_bytes(self) -> int:
        """Bytes that are still to be read."""
        return sum(layer.pages_left * layer.page_bytes for layer in self.layers)

    @property
    def bad_bytes(self) -> int:
        """Bytes that are known to be bad."""
        return sum(layer.bad_pages * layer.page_bytes for layer in self.layers)

    @property
    def unread_bytes(self) -> int:
        """Bytes that the last pass could not read."""
        return sum(layer.unread_pages * layer.page_bytes for layer in self.layers)


class Pass:
    """A pass that begins now, or goes on already: as a tracker of progress, in bytes."""

    def __init__(self, name: str, ask: Callable[[bool], str]) -> None:
        """Begin it.

        `ask` gives the volume's answer, and begins a pass if it is called with True.

        Raises:
            InputError: nothing in the volume has checksums.
            RunError: it is of no use any more.
        """
        self.name, self._ask = name, ask
        self._stop = threading.Event()
        self.first = self.now = self._look(begins=True)
        if not self.first.layers:
            raise InputError(
                f"{name}: no layer of it keeps checksums, so there is nothing to hold its data "
                "against; `flashwright volume info --check` reads all of it while it is not in use"
            )

    def _look(self, *, begins: bool) -> Scrub:
        found = Scrub.parse(self._ask(begins))
        if found.broken is not None:
            raise RunError(f"{self.name}: {found.broken}")
        return found

    def state(self) -> tuple[int, int]:
        """Give what is done and the total."""
        total = self.first.left_bytes
        return max(0, total - self.now.left_bytes), total

    def cancel(self) -> None:
        """Wait for it no longer."""
        self._stop.set()

    def run(self) -> Scrub:
        """Wait for its end.

        Raises:
            RunError: the volume became of no use, or its server is gone.
            Cancelled: we were stopped.
        """
        while self.now.is_on and self.now.passes == self.first.passes:
            if self._stop.wait(_LOOK_SECONDS):
                raise Cancelled("stopped")
            self.now = self._look(begins=False)
        return self.now

    def document(self) -> dict[str, Any]:
        """Give what it found, for programs."""
        return {
            "is_over": not self.now.is_on,
            "read_bytes": {layer.name: self._read(layer) for layer in self.now.layers},
            "bad_bytes": self.now.bad_bytes,
            "unread_bytes": self.now.unread_bytes,
            **asdict(self.now),
        }

    def _read(self, layer: LayerScrub) -> int:
        (before,) = [one for one in self.first.layers if one.level == layer.level]
        return (layer.pages_read - before.pages_read) * layer.page_bytes
