"""Tables of Flink in a directory, and within the bounds of a server's clients."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel
from runnel import Connection, ProgrammingError
from runnel.planner.parse.tokens import statement_ends
from tests.serving.bounds.doors import doors

TABLE = (
    "CREATE TABLE made (id INT, twice AS id * 2) "
    "WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')"
)


def names(con: Connection) -> list[str]:
    return [row[0] for row in con.execute("SHOW TABLES").fetchall()]


def test_a_directory_remembers_which_mappings_are_tables_of_flink(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as con:
        con.execute(TABLE.format(tmp_path / "rows"))
        con.execute("CREATE MAPPING plain (id INT) TYPE Discard")
        con.execute("CREATE TEMPORARY TABLE passing (id INT) WITH ('connector' = 'print')")
        con.execute("INSERT INTO made VALUES (4)")
        assert names(con) == ["made", "passing", "plain"]
    with runnel.connect(tmp_path / "db") as con:
        assert names(con) == ["made", "plain"]
        con.execute("CREATE TABLE other LIKE made")
        assert con.execute("SELECT * FROM other").fetchall() == [(4, 8)]
        con.execute("DROP TABLE made, other")
        with pytest.raises(ProgrammingError, match="not a table"):
            con.execute("DROP TABLE plain")
    with runnel.connect(tmp_path / "db") as con:
        assert names(con) == ["plain"]
    assert list((tmp_path / "rows").iterdir())


def test_a_job_holds_its_table(tmp_path: Path) -> None:
    with runnel.connect() as con:
        con.execute("CREATE TABLE made (id INT) WITH ('connector' = 'datagen')")
        con.execute("CREATE TABLE sink (id INT) WITH ('connector' = 'blackhole')")
        con.execute("CREATE JOB j AS INSERT INTO sink SELECT id FROM made")
        with pytest.raises(ProgrammingError, match='mapping "made" is used by the job "j"'):
            con.execute("DROP TABLE made")
        con.execute("DROP TABLE made CASCADE")
        assert names(con) == ["sink"]


def test_a_script_has_a_statement_set_as_one_statement() -> None:
    one = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT CASE 1 WHEN 1 THEN 2 END; "
    script = f"SELECT 1; {one}INSERT INTO b SELECT 2; END; SELECT 3;"
    ends = statement_ends(script)
    assert ends is not None
    texts = [script[i:j] for i, j in zip([0, *(end + 1 for end in ends)], ends, strict=False)]
    assert [text.strip() for text in texts] == [
        "SELECT 1",
        f"{one}INSERT INTO b SELECT 2; END",
        "SELECT 3",
    ]
    assert statement_ends(one) == []


def test_a_user_does_not_repeat_options_of_the_owner(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with doors(tmp_path / "db", tmp_path / "files") as (owner, user, _):
        owner.execute(TABLE.format(tmp_path / "files" / "rows"))
        with pytest.raises(ProgrammingError, match='options of "made" can\'t be repeated'):
            user.execute("CREATE TABLE mine LIKE made")
        user.execute("CREATE TABLE mine WITH ('connector' = 'blackhole') LIKE made (EXCLUDING ALL)")
        user.execute("CREATE TABLE mine_too LIKE mine")
        for con, name in ((user, "made"), (owner, "mine")):
            with pytest.raises(ProgrammingError, match="it has other bounds"):
                con.execute(f"ALTER TABLE {name} SET ('sink.parallelism' = '1')")
        with pytest.raises(ProgrammingError):
            user.execute("DROP TABLE made")
        user.execute("DROP TABLE mine, mine_too")
