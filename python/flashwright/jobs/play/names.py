"""Names that all of `play` uses."""

DIRECT = "direct"
"""The stack without layers."""
AUTO = "auto"
"""Stacks that may be right for the device."""
