"""Runs programs that need Spark, and a page of doctests, one after the other in one process: a JVM takes seconds to start.

python -W error tests/spark_examples.py PAGE PROGRAM…
"""

from __future__ import annotations

import doctest
import runpy
import sys
import warnings
from pathlib import Path

HEADING = "== "
"""What a program prints is behind a line that begins so and names it."""


def main(page: str, *programs: str) -> int:
    for program in programs:
        print(HEADING + Path(program).name, flush=True)
        runpy.run_path(program, run_name="__main__")
    print(HEADING + Path(page).name, flush=True)
    with warnings.catch_warnings():
        # pyspark's own calls warn of the version of pandas.
        warnings.simplefilter("ignore")
        failed, attempted = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    return 1 if failed or attempted < 10 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
