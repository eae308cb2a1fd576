"""A drive of the size of the disk that a trace is from, and the slice of it that is simulated."""

from flashwright.slices.cut import Part
from flashwright.slices.sized import CUT_FILE, OWN, Effort, SizeAsked, Sized, take

__all__ = ["CUT_FILE", "OWN", "Effort", "Part", "SizeAsked", "Sized", "take"]
