"""Flows: requests played beside others, each with its source, pace, addresses and priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashwright._core import Progress, Requests
    from flashwright.sources import Reading


@dataclass(frozen=True)
class Flow:
    """One flow beside what a run is about; it ends with that."""

    source: str
    """A trace file, `synth:...` or `io:...`."""
    pace: str = "closed"
    """`closed`: so many outstanding; `open`: at the times of the source."""
    depth: int = 1
    think_time_us: float = 0.0
    priority: int = 0
    """0 to 255: of requests that wait for room in the queue, the highest go first."""
    handle: int | None = None
    """Placement handle of its writes, for a simulated drive with `fdp.handles`; that of its source
    if None."""
    region: tuple[int, int] | None = None
    """First byte and length of its addresses; all of the device if None."""

    def document(self) -> dict[str, Any]:
        """Tell the flow for a result."""
        offset, length = self.region or (0, None)
        return {
            "source": self.source,
            "pace": "open_loop" if self.pace == "open" else "closed_loop",
            "depth": self.depth if self.pace == "closed" else None,
            "think_time_us": self.think_time_us,
            "priority": self.priority,
            **({} if self.handle is None else {"handle": self.handle}),
            "region": {"offset": offset, "length": length},
        }

    def given(self, requests: Requests) -> dict[str, Any]:
        """Give the flow as the core takes it."""
        offset, length = self.region or (0, None)
        return {
            "requests": requests,
            "pace": self.pace,
            "depth": self.depth,
            "think_us": self.think_time_us,
            "priority": self.priority,
            "handle": self.handle,
            "offset": offset,
            "length": length,
            "beside": True,
        }


def load(
    flows: Sequence[Flow], reading: Reading, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Read the sources of flows; gives them as the core takes them.

    Each that is made up draws numbers of its own.

    Raises InputError if one cannot be read, or has no times for an open pace.
    """
    given = []
    for number, flow in enumerate(flows, 1):
        requests = _core.load_requests(
            flow.source,
            seed=reading.seed + number,
            page_size=reading.page_size,
            progress=progress,
        )
        if flow.pace == "open" and not requests.has_times:
            raise InputError(
                f"--beside {flow.source}: it has no times for open-loop; give it a depth, or a "
                "pattern `pause_us`"
            )
        given.append(flow.given(requests))
    return given
