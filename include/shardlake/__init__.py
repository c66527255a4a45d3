"""Shardlake: Amazon Kinesis streams to Parquet, each record once, with Airflow and Spark.

The protocol, in reading order: `ranges` and `plan` (what a batch is), `batch` (plan, ingest, verify, commit),
`kinesis` (where a range ends, and reading it exactly), `lake` (publishing and verifying files), `ledger` (the chain
of committed ranges).
"""

__version__ = "0.1.0"
