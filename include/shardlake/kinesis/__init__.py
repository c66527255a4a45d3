"""Kinesis as the protocol needs it: listing shards, finding where a range ends, reading a range exactly."""
