"""`flashwright device`: what a profile of a simulated drive says, and profiles of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from flashwright.cli.groups import CommandWithMore
from flashwright.cli.import_mqsim import import_mqsim
from flashwright.cli.lists import Named
from flashwright.cli.measured import fit, predict
from flashwright.cli.options import Overrides, takes
from flashwright.cli.output import Json, print_table, say
from flashwright.cli.outputs import OutFile
from flashwright.outputs import PROFILE, write_text


@click.command(cls=CommandWithMore, short_help="A drive's profile, and what it comes to.")
@click.argument("profile", type=Named("profile", or_file=True))
@takes(Overrides, "changes")
@click.option(
    "--out",
    type=OutFile(PROFILE),
    metavar="FILE",
    help="Write the profile there, with its changes, to go on from.",
)
@takes(Json, "to")
def device(profile: str, changes: Overrides, out: Path | None, to: Json) -> None:
    """Print PROFILE, a built-in name or the path of a TOML file, and what it comes to.

    \b
    Examples:
      flashwright device intel-x25e
      flashwright device intel-x25e --set ftl.over_provisioning=10% --out my.toml
      flashwright simulate 'io:random(reads=1)' --device my.toml

    `docs/profiles.md` explains every key. A key that is set joins `fitted`: its value is not the
    published one any more.
    """
    from flashwright.devices import Device, profile_text
    from flashwright.reports.drive_words import device_rows, fitted

    found = Device.load(profile, changes.overrides)
    # Only the file as it is has the comments that say where a value is from.
    text = found.toml if changes.overrides else profile_text(profile)[0]
    if out is not None:
        write_text(out, text, PROFILE)
    to.write({**found.document(), "keys": found.profile})
    if to.is_only_json:
        return
    if out is None:
        # A file as it is: its comments are broken into lines already.
        click.echo(text.rstrip())
    print_table(
        [("", "left"), ("", "right")],
        device_rows(found.document()),
        f"{found.name}: what it comes to",
    )
    say(fitted(found.document()))
    if out is not None:
        say(f"Profile: {out}")


for command in (fit, predict, import_mqsim):
    device.add_command(command)
