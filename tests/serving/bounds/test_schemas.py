"""Schemas of a served directory: a user drops neither the owner's objects nor a file's schemas."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import runnel
from tests.serving.bounds.doors import doors


def test_a_user_drops_no_objects_of_the_owner(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as other:
        other.execute("CREATE SCHEMA st")
        other.execute("CREATE TABLE st.x AS SELECT 1 AS a")
    data = tmp_path / "data"
    data.mkdir()
    with doors(tmp_path / "directory", data) as (owner, user, _):
        for sql in ("CREATE SCHEMA s", "CREATE TABLE s.t (a INT)", f"ATTACH '{file}' AS d"):
            owner.execute(sql)
        for sql, words in {
            "DROP SCHEMA s CASCADE": "is the owner's",
            "DROP SCHEMA d.st CASCADE": "for callers without bounds",
            "CREATE SCHEMA d.more": "for callers without bounds",
        }.items():
            with pytest.raises(runnel.ProgrammingError, match=words):
                user.execute(sql)
        assert owner.execute("SELECT a FROM s.t").fetchall() == []
        assert owner.execute("SELECT a FROM d.st.x").fetchall() == [(1,)]
        for sql in ("CREATE SCHEMA u", "CREATE TABLE u.t (a INT)", "DROP SCHEMA u CASCADE"):
            user.execute(sql)
        owner.execute("DROP SCHEMA d.st CASCADE")
