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
)
from flashwright.cli.groups import CommandsLater
from flashwright.progress import StoppedError


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    from flashwright.runs import git_revision

    if asked:
        click.echo(f"flashwright {__version__}, revision {git_revision() or 'unknown'}")
        context.exit()


_MODULES = {
    "trace": "trace",
    "simulate": "simulate",
    "compare": "compare",
    "probe": "probe",
    "run": "run",
    "record": "record",
    "waterfall": "waterfall",
    "replay": "replay",
    "layers": "layers",
    "transactions": "transactions",
    "volume": "volume",
    "emulate": "emulate",
    "top": "top",
    "path": "path",
    "device": "device",
    "model": "model",
    "list": "listing",
    "demo": "demo",
    "report": "report",
}
"""Where each command is."""


@click.group(
    commands=CommandsLater(
        {name: f"flashwright.cli.{module}" for name, module in _MODULES.items()}
    ),
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
      flashwright demo                                a real database trace, every policy
      flashwright trace stats my.blktrace.0           what a trace holds
      flashwright simulate my.blktrace.0 --op 0.2     write amplification of one policy
      flashwright compare my.blktrace.0 --op 0.1,0.2  all of them, and what is attainable
      flashwright simulate my.blktrace.0 --device intel-x25e    latencies on a simulated drive
      flashwright probe /dev/sdb                      measure a drive, and find out how it is made
      flashwright replay my.blktrace.0 --device sd-card play a trace on any device
      flashwright layers my.blktrace.0 --device sd-card --stack 'scheduler(defer,coalesce)'
                                                      what a layer would gain
      flashwright transactions tpcc --device replication-table-2
                                                      what a drive does to transactions
      flashwright volume create /dev/sdb --stack log_volume
                                                      layers under a real database

    SOURCE is a trace file (its content says in which format; .gz, .zst and .xz are read too; .u32
    is a plain list of pages) or a synthetic workload such as `synth:zipf?s=0.99&pages=1M`; on a
    drive also a pattern of requests such as `io:random(size=4Ki)`. `flashwright list` names
    everything there is.
    """


_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""What a disk may refuse at any moment. All else of the system that nobody expected is a bug, and
shows where.
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
