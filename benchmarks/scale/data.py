"""The tables: lineitem and orders of TPC-H, as many as a size takes, made by tpchgen-cli and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.scale import SIZES, TABLES

SCALE_BYTES = 270e6
"""Bytes of both tables as Parquet at TPC-H's scale factor 1."""
PART_BYTES = 200e6
"""Files of this size, so that Spark and DuckDB have several to share."""
SPILL = 0.8
"""How much of the largest size its queries may write to files meanwhile."""


def bytes_of(folder: Path) -> int:
    """What the two tables take in a folder of `made`."""
    return sum(file.stat().st_size for name in TABLES for file in (folder / name).glob("*.parquet"))


def place(root: Path, size: str) -> Path:
    """The folder of a size, with one for each table."""
    return root / size.replace(" ", "")


def made(root: Path, size: str) -> Path:
    """The same, with the tables made unless they are there. What was cut short is made anew."""
    target = place(root, size)
    if target.is_dir():
        return target
    unfinished = root / f".{target.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    scale = SIZES[size] / SCALE_BYTES
    parts = max(1, round(SIZES[size] / PART_BYTES))
    command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "--scale-factor", f"{scale:.6f}", "--no-progress"]
    command += ["--tables", ",".join(TABLES), "--parts", str(parts), "--output-dir", str(unfinished)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    unfinished.replace(target)
    return target


def wanted(largest: float) -> list[str]:
    """The sizes up to so many bytes, smallest first."""
    return [name for name, size in SIZES.items() if size <= largest]


def fitting(root: Path, names: Sequence[str], room: int | None = None) -> list[str]:
    """Those of the sizes that the disk has room for, with what their queries write; what is there already takes none."""
    root.mkdir(parents=True, exist_ok=True)
    left = shutil.disk_usage(root).free if room is None else room
    found = []
    for name in names:
        own = 0 if place(root, name).is_dir() else SIZES[name]
        if own + SPILL * SIZES[name] > left:
            break
        left -= own
        found.append(name)
    return found


def needed(names: Sequence[str]) -> float:
    """Bytes of disk that these sizes take together."""
    return sum(SIZES[name] for name in names) + SPILL * max((SIZES[name] for name in names), default=0)
