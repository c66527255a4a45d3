"""A stand-in for Amazon Kinesis Data Streams: in memory, on the loopback interface, over the real wire protocol.

What is inside, from the wire inwards::

    __main__            the command line: serve, produce
    server, http1       listening on loopback; HTTP/1.1
    api                 X-Amz-Target -> operation; /_local/control and /_local/stats
    behaviour, control  what a call is made to do wrong, and how one orders it
    stream_operations   CreateStream … UpdateShardCount; listing: ListShards
    record_operations   PutRecords, GetShardIterator, GetRecords; iterators: where these stand
    account             the streams of all regions
    stream, reshard     a stream's shard tree, and where a hash key goes
    shard, sequence     a shard's records and their numbers

Beside the server, and the only parts that import boto3::

    produce, items      puts records on any Kinesis endpoint; produce_command: its command line
    process             runs the server as a subprocess, for tests and demos
"""
