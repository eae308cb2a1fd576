"""Simulated drives: profiles with their overrides, and the sources that are played on them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright.sources import PATTERN, check_source

ENDLESS_REQUESTS = 1_000_000
"""Requests that are played of a source without end, if no limit is given."""
LEFT_FREE = (0.07, 0.15, 0.28)
"""Shares of a drive that are left free, where advice looks for what that saves."""
PAGE_MAPPED = ("page_mapped", "superblock_mapped", "dftl")
"""Schemes with placement and victim policies, which write erase blocks to their end."""


@dataclass(frozen=True)
class DriveProfile:
    """A drive as it is run: a profile with its overrides."""

    given: str
    """The name of a built-in profile, or the path of a file."""
    overrides: tuple[str, ...]
    toml: str
    """The profile with its overrides, and every key that had been left out."""
    slice: Mapping[str, Any] | None = field(default=None, compare=False)
    """Part of a disk that it stands for, if it has the size of one; see `flashwright.slices`."""

    @staticmethod
    def load(given: str, overrides: Sequence[str] = ()) -> DriveProfile:
        """Load a built-in profile by its name, or a file by its path.

        Keys of it are overridden by `key=value`.

        Raises InputError if there is no such profile, or something in it is wrong.
        """
        text, place = profile_text(given)
        keys = [override.partition("=")[0].strip() for override in overrides]
        for key in keys:
            if keys.count(key) > 1:
                raise InputError(f"{key}: it is set twice; set each key of {place} once")
        device = DriveProfile(
            given, tuple(overrides), _core.check_profile(text, place, list(overrides))
        )
        device._check_policies()
        return device

    def _check_policies(self) -> None:
        """Raise InputError if a policy was asked for that the mapping has no use for.

        It would change nothing.
        """
        scheme = self.profile["ftl"]["scheme"].partition("(")[0]
        if scheme in PAGE_MAPPED:
            return
        for key in ("ftl.placement", "ftl.victim"):
            if any(text.partition("=")[0].strip() == key for text in self.overrides):
                raise InputError(
                    f"{key}: {self.name} maps with `{scheme}`, which has no such policy; leave it "
                    "out, or give the drive ftl.scheme=page_mapped"
                )

    @cached_property
    def profile(self) -> dict[str, Any]:
        """The profile as nested values."""
        return tomllib.loads(self.toml)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Figures that follow from the profile: capacity, dies and so on."""
        return dict(_core.profile_summary(self.toml))

    @property
    def name(self) -> str:
        """Name that the profile gives."""
        return str(self.profile["name"])

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the host can address."""
        return int(self.summary["capacity_bytes"])

    @property
    def over_provisioning(self) -> float:
        """(physical - logical) / logical."""
        return float(self.profile["ftl"]["over_provisioning"])

    @property
    def profile_hash(self) -> str:
        """SHA-256 of the profile that is run."""
        return hashlib.sha256(self.toml.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """Tell the drive for a result."""
        ftl = self.profile["ftl"]
        return {
            "name": self.name,
            "summary": self.profile["summary"],
            "profile": self.given,
            "profile_hash": self.profile_hash,
            "overrides": list(self.overrides),
            **{key: value for key, value in self.summary.items() if key not in ("name", "summary")},
            # Only what the profile names; empty leaves it to the placement.
            "victim": ftl["victim"] or None,
            "limits": self.limits(),
            **({} if self.slice is None else {"slice": dict(self.slice)}),
        }

    @property
    def endurance_bytes(self) -> float | None:
        """Bytes that the whole drive can program in its life; None if that is not known."""
        cycles = self.profile["media"].get("endurance_cycles")
        if not cycles:
            return None
        physical = int(self.summary["physical_pages"]) * int(self.summary["page_bytes"])
        return float(cycles) * physical * self.slices

    @property
    def slices(self) -> int:
        """Number of slices of the disk: this is one of them."""
        return 1 if self.slice is None else int(self.slice["slices"])

    def limits(self) -> dict[str, float]:
        """Give what each part of the drive could do by itself.

        Bytes a second, and requests of one page a second. Closed forms of the profile's times; what
        works together is slower. A die works on all its planes at once where the profile has
        multi-plane commands.
        """
        media, controller = self.profile["media"], self.profile["controller"]
        page = media["page_bytes"]
        at_once = self.summary["dies"] * (media["planes_per_die"] if media["multi_plane"] else 1)
        transfer_us = media["command_us"] + page / (
            media["channel_mt_per_second"] * media["channel_bits"] / 8
        )
        found = {
            "link_bytes_per_second": self.profile["interface"]["link_mb_per_second"] * 1e6,
            "channels_bytes_per_second": media["channels"] * page / transfer_us * 1e6,
            "die_reads_bytes_per_second": at_once * page / fmean(media["read_us"]) * 1e6,
            "die_programs_bytes_per_second": at_once * page / fmean(media["program_us"]) * 1e6,
        }
        for op in ("read", "write"):
            request_us = controller[f"{op}_command_us"] + controller["page_us"]
            if request_us:
                found[f"controller_{op}s_per_second"] = 1e6 / request_us
        return found


def profile_text(given: str) -> tuple[str, str]:
    """Give the text of a profile, and what to call the place that it is from.

    Raises InputError if there is none.
    """
    names = [profile["name"] for profile in _core.variants("profile")]
    if given in names:
        return _core.profile_toml(given), f"profile `{given}`"
    path = Path(given)
    if not path.is_file():
        raise InputError(
            f"{given}: no such profile or file; built in are: {', '.join(names)}; or give the path "
            "of a TOML file"
        )
    try:
        return path.read_text(encoding="utf-8"), given
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{given}: cannot read the profile: {error}") from error


def check_load_source(source: str) -> str:
    """Give the source for a drive that a name means; see `sources.check_source`.

    Raises InputError if it names a file that is not there.
    """
    if source.startswith(PATTERN):
        return source
    if (
        source in (pattern["name"] for pattern in _core.variants("pattern"))
        and not Path(source).exists()
    ):
        raise InputError(f"{source}: no such file; the pattern of that name is `{PATTERN}{source}`")
    return check_source(source)
