"""Every `.slt` file with all that DuckDB can run on DuckDB: the same rows, and errors of the same
kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import runnel
from tests.effort import some
from tests.slt.runner import Run, run_file

FILES = sorted((Path(__file__).parent.parent / "slt").glob("*/*.slt"), key=lambda path: path.name)


class RunOnDuckDB(Run):
    """A DOUBLE that was summed in another order differs in its last digits, and an error is told in
    other words."""

    def says(self, error: runnel.Error, pattern: str) -> bool:
        return isinstance(error, runnel.DataError) or super().says(error, pattern)

    def gives(self, shown: list[str], expected: list[str]) -> bool:
        return [rounded(line) for line in shown] == [rounded(line) for line in expected]


def rounded(line: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.9e}", line)


@pytest.mark.parametrize("path", some(FILES, 5), ids=lambda path: path.stem)
def test_file(path: Path, tmp_path: Path) -> None:
    assert run_file(path, tmp_path, {"fragment_rows": 0}, with_oracle=False, make=RunOnDuckDB) == 0
