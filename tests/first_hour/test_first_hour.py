"""Every `.slt` file of this folder; what comes after `oracle duckdb` is compared with DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slt.runner import run_file

FILES = sorted(Path(__file__).parent.glob("*.slt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path: Path, tmp_path: Path) -> None:
    run_file(path, tmp_path, {}, with_oracle=True)
