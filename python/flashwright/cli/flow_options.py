"""Options of commands that play several flows beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError
from flashwright.cli.lists import Listed
from flashwright.cli.options import Duration, option
from flashwright.cli.target_options import RegionText

if TYPE_CHECKING:
    from flashwright.flows import Flow

MOST_PRIORITY = 255
MOST_HANDLE = 127
_KINDS: dict[str, click.ParamType[Any]] = {
    "depth": click.IntRange(1, 65_535),
    "think-time": Duration(1e-6),
    "priority": click.IntRange(0, MOST_PRIORITY),
    "handle": click.IntRange(0, MOST_HANDLE),
    "region": RegionText(),
}
_FIELDS = {"think-time": "think_time_us"}


class FlowText(click.ParamType["Flow"]):
    """A flow: `SOURCE`, and after each `;` what is not to be as usual."""

    name = "FLOW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Flow:
        """Read the flow."""
        from flashwright.devices import check_load_source
        from flashwright.flows import Flow

        if isinstance(value, Flow):
            return value
        source, *said = (part.strip() for part in str(value).split(";"))
        try:
            found: dict[str, Any] = {"source": check_load_source(source)}
        except InputError as error:
            self.fail(str(error), param, ctx)
        for part in said:
            key, equals, text = (piece.strip() for piece in part.partition("="))
            name = _FIELDS.get(key, key)
            if name in found or (key == "open-loop" and "pace" in found):
                self.fail(f"{part!r}: {key} was given already", param, ctx)
            if part == "open-loop":
                found["pace"] = "open"
            elif equals and key in _KINDS:
                found[name] = _KINDS[key].convert(text, param, ctx)
            else:
                self.fail(
                    f"{part!r} is nothing of a flow: write open-loop, "
                    f"{', '.join(f'{known}=...' for known in _KINDS)}",
                    param,
                    ctx,
                )
        if found.get("pace") == "open" and ("depth" in found or "think_time_us" in found):
            self.fail(
                f"{value!r}: open-loop sends at the times of the source; leave out depth and "
                "think-time",
                param,
                ctx,
            )
        return Flow(**found)


@dataclass(frozen=True)
class FlowOptions:
    """What is played beside what a run is about."""

    beside: tuple[Flow, ...] = option(
        "Play this too until that ends: a source as SOURCE is, one by one unless ;depth=N or "
        ";open-loop follows, also ;think-time=US, ;priority=0..255, ;region=[OFFSET+]LENGTH, "
        ";handle=0..127 (of a simulated drive with fdp.handles). a,b or again for each.",
        cls=Listed,
        type=FlowText(),
        default=(),
        show_default=False,
    )
    priority: int = option(
        "Of requests that wait for room in the queue those of the highest priority go first.",
        type=click.IntRange(0, MOST_PRIORITY),
        default=0,
    )
