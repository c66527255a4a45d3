"""`make faults`."""

import sys

from support.faults.matrix import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
