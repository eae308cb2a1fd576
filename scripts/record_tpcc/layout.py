#!/usr/bin/env python3
"""Tells which part of the recorded device holds what, and takes one part out of a recording.

The log is written in a circle, so its pages die together, in order: to a flash drive that is a load
quite unlike the data pages', and one to which models of independent updates do not apply.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq

from flashwright.recording.tools import tool
from flashwright.workloads.parts import Ranges, take_part, union

PARTS = {"log": "pg_wal", "data": "base"}
"""Part -> folder of PostgreSQL's data directory. In neither are its small files, and ext4's journal
and metadata.
"""

BLOCK_BYTES = 4096
_EXTENT = re.compile(r"^\s*\d+:\s+\d+\.\.\s*\d+:\s+(\d+)\.\.\s*\d+:\s+(\d+):", re.MULTILINE)


def layout(data_directory: Path) -> dict[str, Ranges]:
    """Ask the file system where the files of each part lie at this moment."""
    found = {}
    for part, folder in PARTS.items():
        files = [path for path in (data_directory / folder).rglob("*") if path.is_file()]
        extents: Ranges = []
        for begin in range(0, len(files), 200):
            # Files may go while we look; filefrag then says so and goes on with the others.
            listing = tool(
                "sh",
                "-c",
                'filefrag -v -b4096 "$@" 2>/dev/null || true',
                "sh",
                *files[begin : begin + 200],
            )
            extents += [
                (int(at) * BLOCK_BYTES, int(n) * BLOCK_BYTES) for at, n in _EXTENT.findall(listing)
            ]
        found[part] = union(extents)
    return found


def main() -> int:
    """Write the log, or everything but the log, as a trace of its own."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("trace", type=Path, help="NAME.parquet, with NAME.json beside it")
    p.add_argument("part", choices=("log", "no-log"))
    p.add_argument("output", type=Path)
    args = p.parse_args()
    ranges = [
        (offset, length)
        for offset, length in json.loads(args.trace.with_suffix(".json").read_text())["layout"][
            "log"
        ]
    ]
    table = take_part(pq.read_table(args.trace), ranges, keep_inside=args.part == "log")
    pq.write_table(table, args.output, compression="zstd")
    print(f"{args.output}: {table.num_rows} requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
