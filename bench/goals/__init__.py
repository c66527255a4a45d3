"""One module a goal of issue 6, each with `measure(bench) -> Iterator[Figure]`."""
