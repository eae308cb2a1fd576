"""Traces and measurements that come with Flashwright.

`traces/README.md` and `measured/README.md` say what is in them, and where from.
"""

from pathlib import Path

TRACES = Path(__file__).parent / "traces"
TPCC = TRACES / "tpcc_postgres"
"""TPC-C on PostgreSQL, 19 minutes of it: a recording with its requests and what each is for."""
TPCC_REQUESTS = TPCC / "requests.parquet"
TPCC_DATA = TRACES / "tpcc_postgres_data.parquet"
"""The same kind of load, as the device of the data alone got it: the log lay elsewhere."""

MEASURED = Path(__file__).parent / "measured"
"""Real drives: steady writes, and response times under a rate."""
MEASURED_WRITES = MEASURED / "writes.csv"
MEASURED_LATENCIES = MEASURED / "latency.csv"
