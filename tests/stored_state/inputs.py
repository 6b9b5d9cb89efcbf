"""The rows that the jobs of the stored directories read, in parts."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BEGINNING = datetime(2026, 1, 1)
END = 100_000
"""Time of the last row, in seconds after the beginning: its watermark completes all windows."""
WRITTEN = 1_767_225_600
"""Modification time of all files in seconds since 1970: positions may contain it."""

Row = dict[str, Any]
PARTS: dict[str, tuple[tuple[range, tuple[int, ...]], ...]] = {
    "1": ((range(0, 62, 2), ()),),
    "2": ((range(62, 92, 2), (10, 12, 35)),),
    "3": ((range(92, 150, 2), (30, 40, 71)),),
    "4": ((range(END, END + 1), ()),),
}
"""By part: times of its rows in seconds, and times of its late rows."""
BEFORE, AFTER = ("1", "2"), ("3", "4")
"""The parts that are read before the directory is stored, and the remaining parts."""


def rows_of_part(stream: str, part: str) -> list[Row]:
    """The rows of a stream in a part, nearly in order of time."""
    rng = random.Random(f"{stream} {part}")
    found = []
    for times, late in PARTS[part]:
        for second in (*late, *times):
            number = (
                second if second in late else second + rng.randrange(-3, 3) * (0 < second < END)
            )
            found.append(_row(rng, stream, int(part) * 1000 + len(found), number))
    return found


def _row(rng: random.Random, stream: str, number: int, second: int) -> Row:
    value = rng.randrange(12)
    return {
        "id": number + (0 if stream == "events" else 5000),
        "ts": (BEGINNING + timedelta(seconds=second)).isoformat(" "),
        "t": second,
        "k": rng.choice("abc") if second < END else "z",
        "v": value,
        "d": f"{rng.randrange(-999, 9999) / 100:.2f}",
        "f": rng.randrange(-40, 400) / 4,
        "s": rng.choice(("", "one", "two", "ünï", "four of them")),
        "b": rng.random() < 0.7,
    }


def _json(rows: list[Row], path: Path) -> None:
    lines = [{**row, "v": None if row["id"] % 17 == 0 else row["v"]} for row in rows]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines), "utf-8")


def _csv(*columns: str) -> Callable[[list[Row], Path], None]:
    def write(rows: list[Row], path: Path) -> None:
        lines = [",".join(columns), *(",".join(str(row[name]) for name in columns) for row in rows)]
        path.write_text("\n".join(lines) + "\n", "utf-8")

    return write


def _broken(rows: list[Row], path: Path) -> None:
    lines = [f"{row['t']},{row['v'] if number % 5 else 'none'}" for number, row in enumerate(rows)]
    path.write_text("\n".join(("t,v", *lines)) + "\n", "utf-8")


def _parquet(rows: list[Row], path: Path) -> None:
    columns = {name: pa.array([row[name] for row in rows], pa.int64()) for name in ("id", "v")}
    pq.write_table(pa.table(columns), path)


STREAMS: dict[str, tuple[str, Callable[[list[Row], Path], None]]] = {
    "events": ("jsonl", _json),
    "payments": ("csv", _csv("id", "ts", "k", "v")),
    "ticks": ("csv", _csv("t", "k", "v")),
    "raw": ("csv", _csv("t", "k", "v")),
    "broken": ("csv", _broken),
    "columnar": ("parquet", _parquet),
}
"""By stream: the extension of its files, and the function that writes one."""

TABLES = {
    "names": "k,name\na,Anna\nb,Björn\nb,Bea\n",
    "prices": "k,since,price\na,2026-01-01 00:00:10,1.5\na,2026-01-01 00:01:00,2.5\n"
    "b,2026-01-01 00:00:00,4\nb,2026-01-01 00:01:40,8\nc,2026-01-01 00:02:00,16\n",
}
"""By bounded table: its file."""


def write_tables(root: Path) -> None:
    """Writes the files of bounded tables."""
    for name, text in TABLES.items():
        (root / "in").mkdir(exist_ok=True)
        (root / "in" / f"{name}.csv").write_text(text, "utf-8")
        os.utime(root / "in" / f"{name}.csv", (WRITTEN, WRITTEN))


def write_part(folder: Path, part: str) -> None:
    """Writes one file of each stream below a folder."""
    for stream, (extension, write) in STREAMS.items():
        path = folder / stream / f"{part}.{extension}"
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}")
        write(rows_of_part(stream, part), hidden)
        os.utime(hidden, (WRITTEN, WRITTEN))
        hidden.rename(path)
