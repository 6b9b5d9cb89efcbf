"""Runs programs, and the blocks of pages, one after the other in one process: their imports take
long, and so does a JVM.

python -W error tests/programs.py PROGRAM.py [ARGUMENT…] PAGE.md …
"""

from __future__ import annotations

import contextlib
import runpy
import sys
import tempfile
import warnings
from pathlib import Path

HEADING = "===== "
"""What a program prints is behind a line that begins so and names it."""


def main(*words: str) -> None:
    """Ends with the error of a program, or with a block that prints something else."""
    commands: list[list[str]] = []
    for word in words:
        if word.endswith((".py", ".md")):
            commands.append([])
        commands[-1].append(word)
    for command in commands:
        run(*command)


def run(name: str, *arguments: str) -> None:
    print(HEADING + Path(name).name, flush=True)
    if name.endswith(".md"):
        check(Path(name))
        return
    sys.argv = [name, *arguments]
    sys.path.insert(0, str(Path(name).parent))
    try:
        runpy.run_path(name, run_name="__main__")
    finally:
        sys.path.pop(0)


def check(page: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.pages.page_blocks import run_page

    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        # pyspark's own calls warn of the version of pandas.
        warnings.simplefilter("ignore")
        run_page(page.absolute(), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
