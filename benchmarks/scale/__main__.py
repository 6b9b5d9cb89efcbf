"""Measures the query of `benchmarks.scale` at each size that fits on the disk.

    python -m benchmarks.scale [--largest GB] [--folder FOLDER] [--rounds N]
        [--sizes "1 GB,5 GB"] [--contestants a,b] [--seconds N] [--delete] [--results]

The tables are written to the folder and stay there. Each point is appended to `points.jsonl` in the
folder as soon as it is measured, so a run may be ended at any time, and the next run resumes it.
The picture, docs/images/scale.png, shows all points. 20 GB and all smaller sizes need 20.1 GB of
disk, and up to 16 GB more during the join. `--delete` removes tables after their measurement,
`--results` writes the section to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.scale import CONTESTANTS, SIZES
from benchmarks.scale.data import fitting, made, needed, remove, sizes_up_to
from benchmarks.scale.plot import IMAGE, spelled
from benchmarks.scale.points import Points
from benchmarks.scale.runs import SECONDS, measure
from benchmarks.scale.section import section_text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--largest", type=float, default=20.0, help="the largest size, in GB")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("scale-data"),
        help="the folder of the tables and the points",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="how often each is run up to 100 MB; more rarely above",
    )
    parser.add_argument("--sizes", default="", help=f"only these of {', '.join(SIZES)}")
    parser.add_argument(
        "--contestants", default=",".join(CONTESTANTS), help="only these, by their short names"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the time limit of a run")
    parser.add_argument("--image", type=Path, default=IMAGE, help="the picture")
    parser.add_argument("--make", action="store_true", help="only make the tables")
    parser.add_argument(
        "--delete", action="store_true", help="remove each size's tables when it is measured"
    )
    parser.add_argument("--results", action="store_true", help="write the section to RESULTS.md")
    options = parser.parse_args()
    # Ends the process that is measured, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    asked = [item.strip() for item in options.sizes.split(",") if item.strip()] or sizes_up_to(
        options.largest * 1e9
    )
    root = options.folder.resolve()
    sizes = fitting(root, asked)
    print(
        f"{', '.join(sizes) or 'nothing'}: up to {spelled(needed(sizes))} of disk in {root}",
        file=sys.stderr,
    )
    if sizes != asked:
        print(f"there is no room for {', '.join(asked[len(sizes) :])}", file=sys.stderr)
    points = Points(root / "points.jsonl")
    for size in sizes:
        if options.make:
            made(root, size)
            continue
        contestants = options.contestants.split(",")
        measure(root, points, [size], contestants, options.rounds, options.seconds)
        if options.delete:
            remove(root, size)
    if not points.all:
        return
    section = section_text(points, options.image)
    print(section)
    if options.results:
        from benchmarks.run import RESULTS, put

        RESULTS.write_text(put(section, RESULTS.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
