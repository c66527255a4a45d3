"""A server of another project in the place of the local Kinesis, for the fixtures of the integration tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local_kinesis.produce import kinesis_client


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the fixtures need of a server that takes no orders."""

    endpoint_url: str

    def client(self, region: str) -> Any:
        """A boto3 client with made-up credentials; it retries nothing."""
        return kinesis_client(self.endpoint_url, region, max_attempts=1)

    def control(self, orders: dict[str, Any]) -> None:
        """Nothing can be ordered, so there is nothing to end when a test is over."""
        assert orders.get("reset_stats"), f"this server takes no orders: {orders}"
