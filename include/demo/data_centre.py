"""The demo's pipeline as in a data centre: files on an object store, a PostgreSQL ledger, Spark on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from demo.object_store import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, ObjectStore
from demo.postgres import Postgres
from demo.setting import Setting
from demo.spark_cluster import SparkCluster

_PREFIX = "flights"

AWS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY}
"""What the machines of the cluster find in their environment, as they would have a role."""


@dataclass(frozen=True, kw_only=True)
class DataCentre(Setting):
    """A setting whose dataset is on an object store."""

    store: ObjectStore
    copy: Path

    def objects(self, below: str = "") -> dict[str, tuple[str, str]]:
        """The data files of the dataset, or of a part of it: ETag and time of writing by key."""
        pages = (
            self.store.client()
            .get_paginator("list_objects_v2")
            .paginate(Bucket=BUCKET, Prefix="/".join(filter(None, (_PREFIX, below, "data/"))))
        )
        return {
            each["Key"]: (each["ETag"], each["LastModified"].isoformat())
            for page in pages
            for each in page.get("Contents", [])
        }

    def dataset(self, below: str = "") -> Path:
        """A copy of the files, made now."""
        client = self.store.client()
        for key in self.objects(below):
            file = self.copy / key
            file.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(BUCKET, key, str(file))
        return self.copy / _PREFIX / below


def in_a_data_centre(server: Postgres, store: ObjectStore, cluster: SparkCluster, copy: Path) -> DataCentre:
    """The pipeline on these services.

    Args:
        copy: where copies of its files go, to be looked at.
    """
    conf = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
    }
    return DataCentre(
        entry={
            "dataset": f"s3://{BUCKET}/{_PREFIX}",
            "storage": {"endpoint_url": store.endpoint_url},
            "ledger": "${SHARDLAKE_LEDGER}",
            "engine": {"kind": "spark", "master": cluster.master_url, "conf": conf},
        },
        environment={"SHARDLAKE_LEDGER": server.url(server.new_database())},
        store=store,
        copy=copy,
    )
