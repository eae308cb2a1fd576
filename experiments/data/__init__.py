"""Traces and measurements that only experiments need.

`README.md` and `measured/README.md` say what is in them, and where from.
"""

from pathlib import Path

DATA = Path(__file__).parent
TPCC_DATA = DATA / "tpcc_postgres_data.parquet"
"""TPC-C on PostgreSQL as the device of the data alone got it: the log lay elsewhere."""
TPCC_SCHEDULER = DATA / "tpcc_scheduler"
"""TPC-C as SCHEDULER 7.2.1 sets it up: a folder for each interval of checkpoints."""
TATP = DATA / "tatp_postgres.parquet"
"""TATP on PostgreSQL as the device of the data alone got it, the whole database first."""
TPCC_FILE_SYSTEMS = DATA / "tpcc_file_systems"
"""TPC-C of the same set-up on ext2, and its system calls as of a raw device."""

MEASURED = DATA / "measured"
"""Real drives: steady writes, and response times under a rate."""
MEASURED_WRITES = MEASURED / "writes.csv"
MEASURED_LATENCIES = MEASURED / "latency.csv"
