"""Every example runs, and so does the README's tour."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py") if "def main(" in path.read_text())
EXPECTED = {
    "main_job.py": ["by SQL", "by a hand-built DAG", "turnover by the seller's state"],
    "pandas_and_polars.py": ["NL", "NO"],
    "parameters_and_plan_cache.py": ["no such name: []", "used 3 times", "[('Dora',)]"],
    "python_function.py": ["Zürich     592 km", "[('São Paulo',)]"],
    "quickstart.py": ["30 trades written", 'did you mean "ticker"?'],
    "word_count_dag.py": ["COMPLETED", "21 dag"],
}
ARGUMENTS = {"main_job.py": ["20000"]}


def test_the_list_of_examples_is_complete() -> None:
    assert sorted(EXPECTED) == SCRIPTS


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name: str) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *ARGUMENTS.get(name, [])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    for text in EXPECTED[name]:
        assert text in done.stdout


def test_readme() -> None:
    failed, attempted = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert attempted >= 15
    assert failed == 0
