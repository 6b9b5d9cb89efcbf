"""Every `.slt` file, also run on DuckDB, with one processor per vertex or with three."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effort import crossed
from tests.slt.runner import run_file

FILES = sorted(Path(__file__).parent.glob("*/*.slt"), key=lambda path: path.name)


@pytest.mark.parametrize(
    ("path", "parallelism"), crossed(FILES, [1, 3]), ids=lambda value: getattr(value, "stem", value)
)
def test_file(path: Path, parallelism: int, tmp_path: Path) -> None:
    run_file(path, tmp_path, {"query_parallelism": parallelism}, with_oracle=True)
