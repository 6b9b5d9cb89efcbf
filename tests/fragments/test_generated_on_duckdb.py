"""Generated queries with all that DuckDB can run on DuckDB give what they give on our own operators."""

from __future__ import annotations

import random
from typing import Any

import pytest

import runnel
from tests.differential.generator import Generator
from tests.differential.tables import in_disguise, tables
from tests.differential.test_generated import Rows, _agree
from tests.effort import some

SEEDS = range(100, 105)
QUERIES_PER_SEED = 25


def outcome(cursor: runnel.Cursor, sql: str) -> Rows | str:
    try:
        return cursor.execute(sql, timeout=20.0).fetchall()
    except runnel.DataError:
        return "DataError"
    except runnel.NotSupportedError:
        return "NotSupportedError"


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_generated_queries(seed: int) -> None:
    source = random.Random(seed)
    on_duckdb = 0
    with runnel.connect(fragment_rows=0) as pushed, runnel.connect(pushdown=False) as own:
        for name, table in tables(source).items():
            disguised: Any = in_disguise(table, source)
            pushed.register(name, disguised)
            own.register(name, disguised)
        generator = Generator(source)
        for _ in range(QUERIES_PER_SEED):
            sql, is_ordered = generator.query()
            ours, theirs = outcome(own.cursor(), sql), outcome(pushed.cursor(), sql)
            if isinstance(ours, str) or isinstance(theirs, str):
                assert ours == theirs, sql
                continue
            assert _agree(theirs, ours, is_ordered), sql
            plan = pushed.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall()
            on_duckdb += any("Fragment on DuckDB" in line for (line,) in plan)
    assert on_duckdb > QUERIES_PER_SEED // 2
