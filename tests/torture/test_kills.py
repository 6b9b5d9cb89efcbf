"""The kill loop, for some seconds: `make torture` runs it for as long as told."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import run
from tests.effort import ALL
from tests.torture import cases, growing_files
from tests.torture.kill_loop import (
    AT_OPERATION,
    AT_WORK,
    ROOT,
    Difference,
    KillLoop,
    Tally,
    _first_missing,
    write_results,
)

SHORT = (
    "window_parquet,join_duckdb,poison_map,disorder_json,copy_parquet_again,join_parquet_again,"
    "window_duckdb_again,dag_parquet,dag_map,files_parquet,panes_duckdb,ordered_map"
)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> KillLoop:
    return KillLoop(tmp_path_factory.mktemp("kills"), cases.named(SHORT), most_kills=2)


ROUNDS = (
    ("window_parquet,join_duckdb", 20241378, False),
    ("copy_parquet_again,window_duckdb_again", 20241017, False),
    ("poison_map,disorder_json", 20240302, True),
    ("dag_parquet,dag_map", 20240421, True),
    ("files_parquet,panes_duckdb,ordered_map", 20240503, True),
)
"""The cases of each round, its seed, and whether other processes disturb the jobs."""
TURNS = len(ROUNDS) if ALL else 2


@pytest.mark.parametrize("turn", range(TURNS))
def test_killed_jobs_hold_each_row(loop: KillLoop, turn: int) -> None:
    """Once where they promise it, else at least once; rows that were too late included."""
    names, seed, disturbs = random.choice(ROUNDS[turn::TURNS])
    loop.tally = Tally()
    loop.round(seed, disturbs=disturbs, chosen=cases.named(names))
    assert loop.tally.kills.total() > 0
    assert loop.tally.rows > 1000


def test_what_is_to_come_is_many_rows(loop: KillLoop) -> None:
    assert {name: len(rows) > 100 for name, rows in loop._expected.items()} == dict.fromkeys(
        [
            *("window", "join", "poison", "bad", "disorder", "copy", "dag"),
            *("files", "panes", "ordered"),
        ],
        True,
    )


def test_rows_of_growing_files_out_of_order_are_found(tmp_path: Path, loop: KillLoop) -> None:
    [case] = cases.named("ordered_map")
    rows = loop._expected["ordered"]
    assert {row[0] for row in rows} == set(range(growing_files.FILES))
    jobs = [{"name": case.name, "status": "SUSPENDED", "last_error": None}]
    [file, number, _] = rows[7]
    swapped = [*rows[:7], [file, number, number + 1], *rows[8:]]
    result = {"rows": {case.name: {"ordered": swapped}}, "jobs": jobs, "traces": []}
    (tmp_path / "result.json").write_text(json.dumps(result))
    with pytest.raises(Difference, match="1 lost"):
        loop._compare(tmp_path, [case])


def test_a_row_lost_and_a_row_too_many_are_found(tmp_path: Path, loop: KillLoop) -> None:
    [case] = cases.named("window_parquet")
    rows = loop._expected["window"]
    jobs = [{"name": case.name, "status": "COMPLETED", "last_error": None}]

    def compare(found: list[Any], jobs: list[Any] = jobs, traces: tuple[str, ...] = ()) -> None:
        result = {"rows": {case.name: {"window": found}}, "jobs": jobs, "traces": traces}
        (tmp_path / "result.json").write_text(json.dumps(result))
        loop._compare(tmp_path, [case])

    compare(rows)
    for wrong, said in (
        (rows[1:], "1 lost"),
        (sorted([*rows, rows[7]]), "1 too many"),
        ([[*rows[0][:3], 0], *rows[1:]], "1 lost"),
    ):
        with pytest.raises(Difference, match=said):
            compare(wrong)
    with pytest.raises(Difference, match="failed on the way"):
        compare(rows, [{**jobs[0], "status": "FAILED"}])
    with pytest.raises(Difference, match="left behind"):
        compare(rows, traces=("a/.runnel-1",))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([["a", 1, 5], ["b", 2, 7]], ""),
        ([["a", 1, 5], ["a", 1, 5], ["b", 2, 7]], ""),
        ([["a", 1, 5], ["b", 3, 9]], ""),
        ([["a", 1, 5], ["b", 2, 6]], "1 of 2 rows missing"),
        ([["b", 2, 7]], "1 of 2 rows missing"),
        ([["a", 1, 5], ["b", 2, 7], ["c", 1, 1]], "1 made up"),
    ],
)
def test_rows_of_at_least_once_may_come_twice_and_none_be_missing(
    found: list[Any], said: str
) -> None:
    wrong = _first_missing(found, [["a", 1, 5], ["b", 2, 7]], 2)
    assert said in wrong and bool(said) == bool(wrong)


def test_the_summary_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = Tally(
        3,
        Counter({AT_WORK: 20, AT_OPERATION: 7}),
        Counter(window_map=3, window_csv=1, join_map=2),
        4321,
    )
    monkeypatch.setattr(run, "RESULTS", tmp_path / "RESULTS.md")
    run.RESULTS.write_text("# Results\n\n### speed\n\nmuch\n")
    write_results(Tally(1, Counter({AT_WORK: 5})).section(1))
    write_results(tally.section(12.3))
    text = run.RESULTS.read_text()
    assert text.startswith("# Results\n\n### speed\n\nmuch\n\n### jobs that are killed")
    assert text.count(run.OF_OTHERS[0]) == 1
    assert "27 kills by SIGKILL in 3 rounds and 12 minutes" in text
    assert "(7 at a file operation, 20 at work)" in text and " 4,321 rows" in text
    assert text.endswith("| csv | map |\n|---|---|---|\n| join | 0 | 2 |\n| window | 1 | 3 |\n\n")
    assert run.of_others(text) == text[text.index("### jobs") :]


KILLED = """
import os, sys
from pathlib import Path
from typing import Any
from tests.torture.fault_points import die_at
die_at({number}, Path({folder!r}))
for i in range(9):
    print(i, flush=True)
    {operation}
"""


@pytest.mark.parametrize(
    ("operation", "each"),
    [
        ("open('{folder}/new', 'w').close()", 1),
        ("open('{folder}/f', 'w').close(); os.replace('{folder}/f', '{folder}/g')", 2),
        ("f = open('{folder}/f'); f.close()", 0),
        ("f = open(os.devnull, 'w'); os.fsync(1)", 1),
        ("os.makedirs('{folder}/a'); os.rmdir('{folder}/a')", 2),
    ],
)
def test_fault_points_count_changes_only(tmp_path: Path, operation: str, each: int) -> None:
    (tmp_path / "f").touch()
    text = KILLED.format(
        number=6, folder=str(tmp_path), operation=operation.format(folder=tmp_path)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    with (tmp_path.parent / "out").open("w+") as out:
        ended = subprocess.run(
            [sys.executable, "-c", text], stdout=out, cwd=ROOT, env=environment, check=False
        )
        out.seek(0)
        seen = len(out.read().split())
    assert (ended.returncode, seen) == ((-9, -(-6 // each)) if each else (0, 9))
