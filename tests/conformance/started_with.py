"""What ministack is started with: its clock is ahead by what a file says. Run by its own interpreter."""

import os
import runpy
import time
from pathlib import Path

_machine = time.time
_seconds_ahead = Path(os.environ["SECONDS_AHEAD"])
time.time = lambda: _machine() + float(_seconds_ahead.read_text(encoding="ascii"))

runpy.run_module("ministack", run_name="__main__")
