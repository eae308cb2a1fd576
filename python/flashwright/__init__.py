"""Database writes on flash: traces, models and simulation of write amplification, lifetime and placement."""

from flashwright._core import Cancelled, FlashwrightError, InputError, Progress, RunError, __version__, registry

__all__ = ["Cancelled", "FlashwrightError", "InputError", "Progress", "RunError", "__version__", "registry"]
