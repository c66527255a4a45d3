"""`python -m shardlake`: the command line."""

from shardlake.cli import main

if __name__ == "__main__":
    main()
