"""The `flashwright` command: the group, its help, and how errors end it.

Exit codes: 0 done; 1 a run failed; 2 wrong use or wrong input; 130 stopped by Ctrl-C. An error is
one line on standard error.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import NoReturn, TextIO

import click

from flashwright._core import (
    Cancelled,
    FlashwrightError,
    InputError,
    InputWarning,
    __version__,
    job_names,
)
from flashwright.cli.groups import CommandsLater
from flashwright.progress import StoppedError


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    from flashwright.runs import git_revision

    if asked:
        click.echo(f"flashwright {__version__}, revision {git_revision() or 'unknown'}")
        context.exit()


_COMMANDS = (
    "advise", "trace", "play", "compare", "sweep", "probe", "bench", "record", "waterfall",
    "transactions", "volume", "serve", "device", "model", "listing", "demo", "report",
)  # fmt: skip
"""Modules of commands, each named as its command but for `list`."""


def _commands() -> CommandsLater:
    """Give all commands: also of jobs that need nothing of their own in Python."""
    names = {"listing": "list"}
    found = CommandsLater({names.get(one, one): f"flashwright.cli.{one}" for one in _COMMANDS})
    for name in job_names(commands=True):
        if name not in found:
            from flashwright.cli.of_jobs import plain_command

            found[name] = plain_command(name)
    return found


@click.group(
    commands=_commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and the revision, and exit.",
)
def cli() -> None:
    """What a database writes to flash, what the drive makes of it, and what would be better.

    \b
    Start here:
      flashwright advise --database postgres DIR     what to change, and its gain
      flashwright record --database sqlite app.db --light -- ./app
      flashwright waterfall runs/tpcc                who amplified what on the way
      flashwright play my.blktrace.0 --on nvme-tlc   on any drive, under layers
      flashwright compare my.blktrace.0 --op 10%,20% placement beside the bound
      flashwright sweep SWEEP.toml                   a job at many points
      flashwright probe /dev/sdb                     a drive from outside
      flashwright bench tpcc --for 60                a benchmark on a database
      flashwright volume create /dev/sdb             layers under a database
      flashwright demo                               a shipped trace, as a report
    SOURCE is a file of any format (`flashwright list trace_format`), the folder
    of a recording, `synth:zipf(s=0.99,pages=1M)`, or `io:random(size=4Ki)`.
    """


_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors that a disk may give at any moment. Any other unexpected error of the system is a bug, and
shows its traceback.
"""


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    warnings.showwarning = _show_warning
    try:
        code = cli.main(prog_name="flashwright", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        code = 2
    except click.ClickException as error:
        code = _fail(_usage_message(error), 2)
    except InputError as error:
        code = _fail(str(error), 2)
    except StoppedError as error:
        code = _fail(str(error), 130)
    except (KeyboardInterrupt, click.Abort, Cancelled):
        code = _fail("stopped", 130)
    except FlashwrightError as error:
        code = _fail(str(error), 1)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nothing more can be said there, not
        # even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        code = _fail(
            f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror), 1
        )
    except MemoryError:
        code = _fail("out of memory: take a smaller workload, or fewer --jobs at once", 1)
    sys.exit(code if isinstance(code, int) else 0)


_show_others = warnings.showwarning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say what is doubtful about an input in one line, without the place in our code."""
    if issubclass(category, InputWarning):
        sys.stderr.write(f"flashwright: warning: {message}\n")
    else:
        _show_others(message, category, filename, lineno, file, line)


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    sys.stderr.write(f"flashwright: {line}\n" if code == 130 else f"flashwright: error: {line}\n")
    return code


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}; see `{context.command_path} --help`" if context is not None else message
