"""Processor time of a server's processes."""

from __future__ import annotations

import subprocess
import sys

from flashwright.recording.processor_time import ProcessorTime

BURN = "import time\nwhile time.process_time() < {seconds}: pass"


def test_children_that_have_ended_count_and_what_was_before_does_not() -> None:
    """A root that works 0.2 s, then a child that works 0.4 s and ends; waits for a line before."""
    program = "\n".join(
        (
            "import subprocess, sys",
            BURN.format(seconds=0.2),
            "print('first', flush=True)",
            "sys.stdin.readline()",
            f"subprocess.run([sys.executable, '-c', {BURN.format(seconds=0.4)!r}], check=True)",
            "print('second', flush=True)",
            "sys.stdin.readline()",
        )
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as root:
        assert root.stdin is not None
        assert root.stdout is not None
        assert root.stdout.readline() == "first\n"
        time = ProcessorTime([root.pid])
        time.begin()
        print(file=root.stdin, flush=True)
        assert root.stdout.readline() == "second\n"
        # The kernel counts in ticks of a hundredth.
        assert 0.38 <= time.end() <= 0.58
        root.stdin.close()
    assert time.end() == 0.0, "a server that is gone has no time"
