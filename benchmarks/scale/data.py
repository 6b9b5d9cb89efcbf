"""The tables: lineitem and orders of TPC-H, as many as a size takes, made by tpchgen-cli and kept.

Sizes from a gigabyte on are the first of a hundred parts of the largest, of which each has some
orders with all of their lines. Each is kept as soon as it is made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.scale import SIZES, TABLES

SCALE_BYTES = {"small": 270e6, "large": 343e6}
"""Bytes of both tables as Parquet by TPC-H's scale factor, below a gigabyte and at the largest
size."""
PARTS = 100
LARGEST = max(SIZES.values())
SPILL = 0.8
"""How much of the largest size its queries may write to files meanwhile."""


def bytes_of(folder: Path) -> int:
    """What the two tables take in a folder of `made`."""
    return sum(file.stat().st_size for name in TABLES for file in (folder / name).glob("*.parquet"))


def place(root: Path, size: str) -> Path:
    """The folder of a size, with one for each table."""
    return root / size.replace(" ", "")


def parts_of(size: str) -> int:
    """How many parts of the largest size this one has; 0 where it is made by itself."""
    return round(PARTS * SIZES[size] / LARGEST) if SIZES[size] >= 1e9 else 0


def made(root: Path, size: str) -> Path:
    """The same, with the tables made unless they are there. What was cut short is made anew."""
    target = place(root, size)
    if target.is_dir():
        return target
    unfinished = root / f".{target.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number in range(1, parts_of(size) + 1):
        part = made_part(root, number)
        for name in TABLES:
            (unfinished / name).mkdir(exist_ok=True)
            for file in (part / name).iterdir():
                os.link(file, unfinished / name / file.name)
    if not parts_of(size):
        _generate(unfinished, SIZES[size] / SCALE_BYTES["small"], "--parts", "1")
    unfinished.replace(target)
    return target


def made_part(root: Path, number: int) -> Path:
    """The folder of one part, made unless it is there."""
    target = root / "parts" / f"{number:03d}"
    if not target.is_dir():
        unfinished = target.with_name(f".{target.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _generate(
            unfinished, LARGEST / SCALE_BYTES["large"], "--parts", str(PARTS), "--part", str(number)
        )
        unfinished.replace(target)
    return target


def _generate(folder: Path, scale: float, *options: str) -> None:
    command = [
        str(Path(sys.executable).parent / "tpchgen-cli"),
        "parquet",
        "--no-progress",
        "--output-dir",
        str(folder),
    ]
    command += ["--scale-factor", f"{scale:.6f}", "--tables", ",".join(TABLES), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def wanted(largest: float) -> list[str]:
    """The sizes up to so many bytes, smallest first."""
    return [name for name, size in SIZES.items() if size <= largest]


def fitting(root: Path, names: Sequence[str], room: int | None = None) -> list[str]:
    """Those of the sizes that the disk has room for, with what their queries write; what is there
    already takes none."""
    root.mkdir(parents=True, exist_ok=True)
    left = shutil.disk_usage(root).free if room is None else room
    there = len([item for item in (root / "parts").glob("*") if not item.name.startswith(".")])
    found: list[str] = []
    for name in names:
        parts = max(0, parts_of(name) - there)
        own = (
            parts * LARGEST // PARTS
            if parts_of(name)
            else 0
            if place(root, name).is_dir()
            else SIZES[name]
        )
        if own + SPILL * SIZES[name] > left:
            break
        left -= own
        there += parts
        found.append(name)
    return found


def needed(names: Sequence[str]) -> float:
    """Bytes of disk that these sizes take together."""
    large = [SIZES[name] for name in names if parts_of(name)]
    small = [SIZES[name] for name in names if not parts_of(name)]
    return (
        sum(small) + max(large, default=0) + SPILL * max((SIZES[name] for name in names), default=0)
    )


def remove(root: Path, size: str) -> None:
    """Removes the tables of a size; the parts of the largest when it is that one."""
    shutil.rmtree(place(root, size), ignore_errors=True)
    if SIZES[size] == LARGEST:
        shutil.rmtree(root / "parts", ignore_errors=True)
