"""A stand-in for Amazon Kinesis Data Streams: in memory, on the loopback interface, over the real wire protocol.

What is inside, from the wire inwards::

    __main__            the command line: serve, produce
    server, http1       listening on loopback; HTTP/1.1
    api                 X-Amz-Target -> operation; /_local/control and /_local/stats
    control             orders to the server
    behaviour           what it does to its callers for good
    fault_plan, faults  which single calls are befallen; fault_kinds: by what; delivery: replies late or cut
    limits              the service's limits per shard
    stream_operations   CreateStream … UpdateShardCount; listing: ListShards
    record_operations   PutRecords, GetShardIterator, GetRecords; iterators: where these stand; incoming: records put
    account             the streams of all regions
    stream, reshard     a stream's shard tree, and where a hash key goes
    shard, sequence     a shard's records and their numbers

Beside the server, and the only parts that import boto3::

    produce, items      puts records on any Kinesis endpoint; produce_command: its command line
    process             runs the server as a subprocess, for tests and demos
"""
