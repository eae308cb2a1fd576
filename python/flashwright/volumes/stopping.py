"""Being asked to stop, by a signal."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType


class Stopping:
    """Whether SIGTERM or Ctrl-C has asked to stop.

    A handler runs in the main thread wherever that is, so it takes no lock: an Event would wait
    there for one that the same thread holds, and the server would never close.
    """

    def __init__(self) -> None:
        """Listen from now on."""
        self.is_asked = False
        self._heard, self._tells = os.pipe()
        os.set_blocking(self._tells, False)
        signal.signal(signal.SIGTERM, self.ask)
        signal.signal(signal.SIGINT, self.ask)

    def ask(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Ask to stop; may be called at any place."""
        if not self.is_asked:
            self.is_asked = True
            os.write(self._tells, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait until somebody asks, for so long at most; tells whether somebody has."""
        if not self.is_asked:
            select.select([self._heard], [], [], seconds)
        return self.is_asked
