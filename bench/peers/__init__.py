"""Other consumers of Kinesis: programs with one command line, `PROGRAM ENDPOINT STREAM FOLDER RECORDS`.

Each reads a stream from its oldest record, writes what it gets as Parquet (`writing`), and ends once it has as many
records as there are. They run in an environment of their own, and so import nothing but what is there (`peers.txt`) and
what lies beside them.
"""
