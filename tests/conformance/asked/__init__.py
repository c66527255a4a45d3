"""What is asked; importing this notes all of it in `conformance.behaviour.BEHAVIOURS`."""

from tests.conformance.asked import connections, listing, positions, putting, reading, resharding, streams, trimming

__all__ = ["connections", "listing", "positions", "putting", "reading", "resharding", "streams", "trimming"]
