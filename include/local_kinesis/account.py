"""The streams of one account: each belongs to the region in which it was made."""

import re

from local_kinesis.clock import Clock
from local_kinesis.errors import InvalidArgumentException, ResourceInUseException, ResourceNotFoundException
from local_kinesis.stream import ACCOUNT_ID, Stream

_ARN = re.compile(r"arn:aws[a-z-]*:kinesis:(?P<region>[^:]*):(?P<account>\d{12}):stream/(?P<name>[a-zA-Z0-9_.-]+)")


class Account:
    """All streams, by region and name."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._streams: dict[tuple[str, str], Stream] = {}
        self._last_created_ms = 0

    def create(self, region: str, name: str, mode: str, shard_count: int, max_record_bytes: int) -> Stream:
        """Makes a stream, active at once, with a creation time of its own.

        Raises:
            ResourceInUseException: the region has one of this name.
        """
        if (region, name) in self._streams:
            raise ResourceInUseException(f"Stream {name} under account {ACCOUNT_ID} already exists.")
        self._last_created_ms = max(self.clock.now_ms(), self._last_created_ms + 1)
        stream = Stream(region, name, mode, shard_count, self._last_created_ms, max_record_bytes)
        self._streams[region, name] = stream
        return stream

    def delete(self, stream: Stream) -> None:
        """Forgets a stream and its records."""
        del self._streams[stream.region, stream.name]

    def stream(self, region: str, name: str | None, arn: str | None = None) -> Stream:
        """The stream a request means, by its name, its ARN, or both.

        Raises:
            InvalidArgumentException: neither is given, or they contradict each other, or the ARN is none.
            ResourceNotFoundException: the request's region has no such stream.
        """
        if arn is not None:
            parts = _ARN.fullmatch(arn)
            if parts is None:
                raise InvalidArgumentException(f"StreamARN {arn} is not the ARN of a stream")
            if name is not None and name != parts["name"]:
                raise InvalidArgumentException(f"StreamName {name} and StreamARN {arn} name different streams")
            if parts["region"] != region or parts["account"] != ACCOUNT_ID:
                raise ResourceNotFoundException(f"Stream {arn} not found in region {region} of account {ACCOUNT_ID}.")
            name = parts["name"]
        if name is None:
            raise InvalidArgumentException("Missing StreamName or StreamARN")
        stream = self._streams.get((region, name))
        if stream is None:
            raise ResourceNotFoundException(f"Stream {name} under account {ACCOUNT_ID} not found.")
        return stream

    def streams(self, region: str) -> list[Stream]:
        """The region's streams in the order of their names."""
        return sorted((s for s in self._streams.values() if s.region == region), key=lambda stream: stream.name)

    def find(self, name: str, region: str | None) -> Stream:
        """A stream for the control endpoint, where the region may be left out if only one region has the name.

        Raises:
            ResourceNotFoundException: no stream, or more than one, fits.
        """
        found = [s for s in self._streams.values() if s.name == name and region in (None, s.region)]
        if len(found) != 1:
            regions = ", ".join(sorted(stream.region for stream in found)) or "none"
            raise ResourceNotFoundException(f"the stream {name} must be in one region (or name it): found {regions}")
        return found[0]
