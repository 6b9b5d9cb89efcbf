"""Every example runs, and so does the page on Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.effort import ALL
from tests.programs import HEADING
from tests.spark.connect_server import QUICK_JAVA, quick_home
from tests.spark_process import FEWER_FILES

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(
    path.name for path in (ROOT / "examples").glob("*.py") if "def main(" in path.read_text()
)
EXPECTED = {
    "job_that_comes_back.py": ["run 3: the job is RUNNING", "[(29, 2900, 8695)]"],
    "materialized_view.py": ["Ann has 70", "richest: ('ann', 70)", "- ann 70", "+ bo 65"],
    "live_word_count.py": ["5 × the", "3 × cat"],
    "main_job.py": ["by SQL", "by a hand-built DAG", "turnover by the seller's state"],
    "pandas_and_polars.py": ["NL", "NO"],
    "parameters_and_plan_cache.py": ["no such name: []", "used 3 times", "[('Dora',)]"],
    "python_function.py": ["Zürich     592 km", "[('São Paulo',)]"],
    "sessions.py": ["ann 09:00-09:09 3 pages: home > shop > cart", "late: [('ann', 'help')]"],
    "sliding_averages.py": ["12:00:20 roof   20.00 °C of 1", "the other 6"],
    "spark_by_one_option.py": [
        "here: 144 rows, Spark was not started",
        "on Spark: 144 rows, the same",
    ],
    "spark_enrichment.py": ["(3, None, 25, 250)", "(3, 'Cid', 25, 375)"],
    "spark_and_map.py": [
        "Oslo Bo 16175 258803.00",
        "2 totals written: ('Lviv', Decimal('324998.00'))",
    ],
    "quickstart.py": ["30 trades written", 'did you mean "ticker"?'],
    "testing_an_application.py": ["the attic is too hot", "each order was copied once"],
    "word_count_dag.py": ["COMPLETED", "21 dag"],
    "writing_a_connector.py": [
        't."hour" COLLATE BINARY < ? [190, 200]',
        "[('s0', 49.5), ('s1', 49.75), ('s2', 49.25)]",
    ],
}
ARGUMENTS = {"main_job.py": ["20000"]}
HAS_SPARK = find_spec("pyspark") is not None and (
    shutil.which("java") is not None or "JAVA_HOME" in os.environ
)
ON_SPARK = [
    name
    for name in sorted(EXPECTED, key="spark_by_one_option.py".__ne__)
    if name.startswith("spark")
]
"""First the one that looks whether Spark was started."""
OWN_SESSION = ROOT / "tests" / "spark" / "session" / "session_of_our_own.py"
OWN_SESSION_SAYS = [
    "[(0,), (1,), (2,)]",
    "local[1] 127.0.0.1",
    'Spark can\'t be started on "local[2]": this process runs one on "local[1]" already',
    "None",
]
SPARK_PAGE = ROOT / "docs" / "spark.md"
QUICK_SPARK = {
    "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JAVA}' --conf spark.ui.enabled=false "
    "--conf spark.sql.shuffle.partitions=4 "
    + "".join(f"--conf {name}={value} " for name, value in FEWER_FILES.items() if not ALL)
    + "pyspark-shell"
}
"""A small JVM that starts fast, where the program says nothing else."""


def test_the_list_of_examples_is_complete() -> None:
    assert sorted(EXPECTED) == SCRIPTS


def printed(*words: str, **environment: str) -> dict[str, str]:
    """What programs and pages print, by their names; they must succeed, and warn of nothing."""
    command = (sys.executable, "-W", "error", str(ROOT / "tests" / "programs.py"), *words)
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(part.split("\n", 1) for part in done.stdout.split(HEADING)[1:])


def lacking(name: str, said: str) -> list[str]:
    """What an example should print and doesn't."""
    return [text for text in EXPECTED[name] if text not in said]


@pytest.mark.timeout(300)
def test_examples() -> None:
    names = sorted(set(EXPECTED) - set(ON_SPARK))
    words = [
        word for name in names for word in (str(ROOT / "examples" / name), *ARGUMENTS.get(name, []))
    ]
    parts = printed(*words)
    assert [*parts] == names
    for name, said in parts.items():
        assert lacking(name, said) == [], said


@pytest.mark.timeout(300)
@pytest.mark.skipif(not HAS_SPARK, reason="pyspark or Java is missing")
def test_examples_on_spark_and_the_page() -> None:
    """In one process, so that one JVM does."""
    programs = [*(ROOT / "examples" / name for name in ON_SPARK), OWN_SESSION, SPARK_PAGE]
    home = quick_home(has_zip=True)
    try:
        parts = printed(*map(str, programs), SPARK_HOME=home, **QUICK_SPARK)
    finally:
        shutil.rmtree(home)
    assert [*parts] == [*ON_SPARK, OWN_SESSION.name, SPARK_PAGE.name]
    for name in ON_SPARK:
        assert lacking(name, parts[name]) == [], parts[name]
    assert parts[OWN_SESSION.name].splitlines() == OWN_SESSION_SAYS
