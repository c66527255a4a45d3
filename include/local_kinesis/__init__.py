"""A stand-in for Amazon Kinesis Data Streams: in memory, on the loopback interface, over the real wire protocol.

What is inside, from the wire inwards::

    __main__           the command line: serve, produce
    server, http1      HTTP/1.1 on asyncio
    api                X-Amz-Target -> operation; the one place where a call can be made to fail
    stream_operations  CreateStream … UpdateShardCount
    record_operations  PutRecords, GetShardIterator, GetRecords
    account            the streams of all regions
    stream, reshard    a stream's shard tree and where a hash key goes
    shard, sequence    a shard's records and their numbers
    produce            puts records on any Kinesis endpoint (the one module that imports boto3 with ``process``)
    process            runs the server as a subprocess, for tests and demos

The server is made of the standard library only.
"""
