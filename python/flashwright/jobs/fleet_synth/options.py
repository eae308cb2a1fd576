"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from typing import TypedDict


class FleetSynth(TypedDict, total=False):
    """Writes a synthetic trace of many volumes in Alibaba's format: volumes of very different
    rate, share of writes, footprint, pattern and time of day. Equal settings give equal
    files.
    """

    files: int | str
    """Files that follow each other in time: `fleet-000.csv.zst` and on."""
    volumes: int | str
    """Volumes."""
    requests: int | str
    """Requests of all volumes."""
    days: int | str
    """Days that they last."""
    skew: float
    """Exponent of Zipf's law over the rates of volumes; 0 for all alike."""
    largest: int | str
    """Bytes of the largest footprint; others are down to a thousandth of it."""
    seed: int
    """What everything is drawn from."""
