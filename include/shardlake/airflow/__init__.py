"""The one bridge to Airflow: nothing else in `shardlake` imports it.

Modules here import pyarrow, boto3 and SQLAlchemy only while a task runs, so that parsing a DAG stays cheap.
"""
