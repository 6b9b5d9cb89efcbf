"""Writes the stored directory of hand-built jobs: run once, with the code whose directory later
code must open.

    python -m tests.stored_state.hand_built.write_directory
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import runnel
from tests.stored_state.hand_built.directory import (
    ARCHIVE,
    EXPORTED,
    MAKERS,
    PARTS,
    PATIENCE,
    SUSPENDED,
    define,
    define_sinks,
    rows_read,
    submit,
    write_part,
)
from tests.stored_state.write_directory import pack
from tests.waiting import eventually


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.chdir(root)
        (root / "in").mkdir()
        (root / "in" / "names.csv").write_text("k,name\na,one\nab,two\nabc,three\n")
        write_part(root / "in" / "events", PARTS[0])
        write()
        for part in PARTS[2:]:
            write_part(root / "later", part)
        (root / "directory" / "lock").unlink()
        shutil.rmtree(root / "directory" / "temp", ignore_errors=True)
        pack(root, ARCHIVE)
        os.chdir("/")


def write() -> None:
    with runnel.connect("directory") as connection:
        connection.execute("SET query_parallelism = 2")
        define(connection)
        define_sinks(connection)
        for name in MAKERS:
            submit(connection, name)
        for number, part in enumerate(PARTS[:2], 1):
            write_part(Path("in/events"), part)
            for name in MAKERS:
                assert eventually(
                    lambda name=name, number=number: rows_read(connection, name) == 60 * number,
                    PATIENCE,
                ), name
        connection.execute(f"DROP JOB {EXPORTED} WITH SNAPSHOT of_{EXPORTED}", timeout=PATIENCE)
        for name in SUSPENDED:
            connection.execute(f"ALTER JOB {name} SUSPEND", timeout=PATIENCE)


if __name__ == "__main__":
    main()
