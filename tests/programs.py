"""Runs programs, and pages of doctests, one after the other in one process: what they import takes
long, and so does a JVM.

python -W error tests/programs.py PROGRAM.py [ARGUMENT…] PAGE.md …
"""

from __future__ import annotations

import doctest
import runpy
import sys
import warnings
from pathlib import Path

HEADING = "===== "
"""What a program prints is behind a line that begins so and names it."""


def main(*words: str) -> int:
    """The status: 1 if a page has said something else than it gives. What a program raises is
    raised."""
    commands: list[list[str]] = []
    for word in words:
        if word.endswith((".py", ".md")):
            commands.append([])
        commands[-1].append(word)
    return max([run(*command) for command in commands])


def run(name: str, *arguments: str) -> int:
    print(HEADING + Path(name).name, flush=True)
    if name.endswith(".md"):
        return check(name)
    sys.argv = [name, *arguments]
    sys.path.insert(0, str(Path(name).parent))
    try:
        runpy.run_path(name, run_name="__main__")
    finally:
        sys.path.pop(0)
    return 0


def check(page: str) -> int:
    with warnings.catch_warnings():
        # pyspark's own calls warn of the version of pandas.
        warnings.simplefilter("ignore")
        failed, attempted = doctest.testfile(
            page, module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8"
        )
    return 1 if failed or attempted < 10 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
