"""How fast Shardlake is, beside its peers and beside what the machine can do: `make bench`, `make bench-quick`.

What is inside::

    __main__         the command line; results, table, plots
    sizes            how much is read, in one place
    figures, table   a figure, its goal, whether it is reached; the table of them
    measured, runs   a command in a process of its own, and what it took: wall, CPU, memory, the server's CPU apart
    pour, source     streams on a local Kinesis, filled fast
    pipeline         Shardlake's own command line on such a stream
    goals/           one module a goal of issue 6, each with `measure(bench)`
    children/        the programs that are measured, beside the product itself
    peers/           other consumers: programs with one command line, in an environment of their own (peers.txt)
    plots            pictures of the results, drawn in that environment

No figure is compared with one of another run, another machine or another size: what counts are the ratios of one run.
"""
