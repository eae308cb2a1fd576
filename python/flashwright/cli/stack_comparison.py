"""What `compare` does with `--stack`.

Stacks of layers on several simulated drives, or on one with several policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from flashwright._core import InputError
from flashwright.cli.drive import DriveOptions, is_given, policy_overrides
from flashwright.cli.layers import AskedStacks, Layering, compare_stacks
from flashwright.cli.output import Output

if TYPE_CHECKING:
    from flashwright.slices import SizeAsked
    from flashwright.sources import Reading

NOT_HERE = (
    "page_size",
    "repeat",
    "endurance",
    "writes_per_day",
    "think_time_us",
    "warm_up_requests",
    "most_seconds",
    "untimed",
)
"""Parameters of `compare --device` that mean nothing where a trace is played through layers."""


def compare_stacks_on_drives(
    options: DriveOptions,
    profiles: Sequence[str],
    source_names: Sequence[str],
    stacks: Sequence[str],
    policies: Sequence[tuple[str | None, str | None]],
    over_provisionings: Sequence[float | None],
    reading: Reading,
    size: SizeAsked,
    jobs: int | None,
    output: Output,
) -> None:
    """Play the trace on each stack over each drive, each with the device alone beside them."""
    from flashwright import beyond, replays
    from flashwright.layering.comparison import stacks_of
    from flashwright.probing.targets import Target
    from flashwright.sweeps.drives import Change, variants

    names = {
        parameter.name: parameter.opts[0]
        for parameter in click.get_current_context().command.params
    }
    for parameter in NOT_HERE:
        if is_given(parameter):
            raise click.UsageError(
                f"{names[parameter]}: it is not for --stack; `flashwright layers --help` has what "
                "is"
            )
    if options.state == "loaded":
        raise click.UsageError(
            "--state loaded: it is not for --stack; right would be fresh, filled or aged"
        )
    if len(source_names) != 1:
        raise InputError(
            f"{' '.join(source_names)}: with --stack one trace is played; give one SOURCE"
        )
    path = replays.trace_path(source_names[0])
    depth = options.one_depth("with --stack a trace is played at one; run it again for each")
    load = options.load(reading.seed)
    one_by_one = load.pace == "closed" and (load.depth == 1 or depth is None)
    kind = "open_loop" if load.pace == "open" else "one_by_one" if one_by_one else "closed_loop"
    plan = replays.ReplayPlan(
        replays.Pace(kind, 1 if kind != "closed_loop" else load.depth),
        replays.TracePart(limit=load.most_requests),
        "fold" if load.fold else "refuse",
        choices=beyond.FOLD,
    )
    changes = [Change(*policy, over) for over in over_provisionings for policy in policies]
    found = variants(
        profiles,
        changes,
        lambda change: policy_overrides(
            change.placement, change.victim, change.over_provisioning, options.overrides
        ),
    )
    targets = [
        (
            one.label,
            Target(one.device.given, one.device, load.state, load.overwrites, seed=reading.seed),
        )
        for one in found
    ]
    played = stacks_of(stacks, with_direct=True)
    asked = AskedStacks(played, plan, reading, Layering(threads=jobs), size=size)
    compare_stacks(asked, path, targets, "compare", output)
