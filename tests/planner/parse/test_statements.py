"""Our own statements: every clause comes out where it belongs."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.connector import WriteMode
from runnel.planner.parse import syntax
from runnel.planner.parse.statement import parse


def test_create_mapping() -> None:
    statement = parse(
        'CREATE OR REPLACE EXTERNAL MAPPING "My Map" EXTERNAL NAME a."b.c" (__key BIGINT, '
        'name VARCHAR EXTERNAL NAME "this.n",'
        " price DECIMAL(10, 2)) CONNECTOR TYPE IMap OBJECT TYPE Thing OPTIONS "
        "('keyFormat'='bigint', 'x'='it''s')"
    )
    assert isinstance(statement, syntax.CreateMapping)
    assert statement.name.text == "My Map"
    assert statement.external_name is not None and statement.external_name.text == "a.b.c"
    assert [(c.name.text, str(c.type)) for c in statement.columns] == [
        ("__key", "BIGINT"),
        ("name", "VARCHAR"),
        ("price", "DECIMAL(10, 2)"),
    ]
    external = statement.columns[1].external_name
    assert external is not None and external.text == "this.n"
    assert statement.connector.text == "IMap"
    assert statement.object_type is not None and statement.object_type.text == "Thing"
    assert [(option.name.text, option.value) for option in statement.options] == [
        ("keyFormat", "bigint"),
        ("x", "it's"),
    ]
    assert statement.or_replace and not statement.if_not_exists


def test_create_mapping_with_the_least() -> None:
    statement = parse("create mapping if not exists m type File")
    assert isinstance(statement, syntax.CreateMapping)
    assert statement.columns == () and statement.options == ()
    assert statement.external_name is None and statement.object_type is None
    assert statement.if_not_exists and not statement.or_replace


def test_drops() -> None:
    found = {
        "drop mapping m": (syntax.DropMapping, "m", False),
        "drop external mapping if exists public.m": (syntax.DropMapping, "m", True),
        "drop view v": (syntax.DropView, "v", False),
        "drop index if exists i": (syntax.DropIndex, "i", True),
    }
    for sql, (kind, name, if_exists) in found.items():
        statement: Any = parse(sql)
        assert type(statement) is kind
        assert (statement.name.text, statement.if_exists) == (name, if_exists)
    on = parse("drop index i on m")
    assert isinstance(on, syntax.DropIndex) and on.table is not None and on.table.text == "m"


def test_create_view_keeps_the_query_text() -> None:
    statement = parse("create or replace temporary view v (a, b) as\n  select 1,  2 -- end\n")
    assert isinstance(statement, syntax.CreateView)
    assert statement.query.text == "select 1,  2"
    assert [name.text for name in statement.columns] == ["a", "b"]
    assert statement.or_replace and statement.temporary and not statement.if_not_exists
    assert parse("create view v as table t").query.text == "table t"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("create index i on m (a, b)", "sorted"),
        ("create index i on m (a, b) type sorted", "sorted"),
        ("create index i on m (a, b) type hash", "hash"),
        ("create index i on m (a, b) using hash", "hash"),
        ("create index i on m using hash (a, b)", "hash"),
    ],
)
def test_create_index(sql: str, kind: str) -> None:
    statement = parse(sql)
    assert isinstance(statement, syntax.CreateIndex)
    assert statement.name is not None and statement.name.text == "i"
    assert (statement.table.text, statement.kind) == ("m", kind)
    assert [name.text for name in statement.columns] == ["a", "b"]


def test_insert_and_sink() -> None:
    insert = parse('insert into t (a, "B") values (?, 1), (?, 2)')
    assert isinstance(insert, syntax.Insert)
    assert insert.mode is WriteMode.INSERT
    assert insert.columns is not None and [name.text for name in insert.columns] == ["a", "B"]
    assert insert.query.text == "values (?, 1), (?, 2)" and insert.query.parameters == 2
    sink = parse("sink into t (select * from u)")
    assert isinstance(sink, syntax.Insert) and sink.mode is WriteMode.SINK and sink.columns is None
    assert sink.query.text == "(select * from u)"


def test_update() -> None:
    statement = parse(
        "update t as x set a = f(1, 2) + ?, b = (select 1 where true) where c = ? and d in (1, 2)"
    )
    assert isinstance(statement, syntax.Update)
    assert statement.alias is not None and statement.alias.text == "x"
    assert [item.column.text for item in statement.assignments] == ["a", "b"]
    assert [item.value.key for item in statement.assignments] == ["add", "subquery"]
    assert statement.where is not None and statement.where.key == "and"
    assert statement.parameters == 2
    bare = parse("update t set a = 1")
    assert isinstance(bare, syntax.Update) and bare.where is None and bare.alias is None


def test_parameters_are_numbered_over_the_whole_statement() -> None:
    statement = parse("update t set a = ?, b = ? where c = ?")
    assert isinstance(statement, syntax.Update)
    assert [int(item.value.name) for item in statement.assignments] == [0, 1]
    assert int(statement.where.expression.name) == 2  # type: ignore[union-attr]


def test_delete() -> None:
    statement = parse("delete from t x where a = 1")
    assert isinstance(statement, syntax.Delete)
    assert (
        statement.table.text == "t" and statement.alias is not None and statement.where is not None
    )
    assert parse("delete from t").where is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "stage", "form"),
    [
        ("explain select 1", "all", "text"),
        ("explain plan for select 1", "all", "text"),
        ("explain (logical) select 1", "logical", "text"),
        ("explain (physical, format json) select 1", "physical", "json"),
        ("explain (format dot, dag) select 1", "dag", "dot"),
        ("explain (select 1)", "all", "text"),
        ("explain insert into t values (1)", "all", "text"),
        ("explain delete from t", "all", "text"),
    ],
)
def test_explain(sql: str, stage: str, form: str) -> None:
    statement = parse(sql)
    assert isinstance(statement, syntax.Explain)
    assert (statement.stage, statement.format) == (stage, form)
    assert isinstance(statement.statement, syntax.Query | syntax.Insert | syntax.Delete)


@pytest.mark.parametrize("what", ["mappings", "views", "plans", "indexes", "settings"])
def test_show(what: str) -> None:
    statement = parse(f"SHOW {what.upper()};")
    assert isinstance(statement, syntax.Show)
    assert (statement.what, statement.name) == (what, None)


def test_show_setting() -> None:
    everything = parse("show all")
    assert isinstance(everything, syntax.Show) and everything.what == "settings"
    one = parse("show plan_cache_size")
    assert (
        isinstance(one, syntax.Show)
        and one.what == "setting"
        and str(one.name) == "plan_cache_size"
    )


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("set a = 'b'", "b"),
        ("set a to 12", 12),
        ("set a = -1_000", -1000),
        ("set a = 1.5", 1.5),
        ("set a = true", True),
        ("set a = FALSE", False),
        ("set a = default", None),
        ("set a = off", "off"),
        ("reset a", None),
    ],
)
def test_set(sql: str, value: object) -> None:
    statement = parse(sql)
    assert isinstance(statement, syntax.SetOption)
    assert statement.name.text == "a"
    assert statement.value == value and type(statement.value) is type(value)


def test_set_time_zone() -> None:
    statement = parse("set time zone 'Europe/Paris'")
    assert isinstance(statement, syntax.SetOption)
    assert (statement.name.text, statement.value) == ("time_zone", "Europe/Paris")


def test_positions_of_names() -> None:
    sql = "insert into t (a, b) select 1, 2"
    statement = parse(sql)
    assert isinstance(statement, syntax.Insert) and statement.columns is not None
    assert statement.columns[1].position.offset == sql.index("b")
    assert statement.query.position.offset == sql.index("select")


def test_semicolons_and_comments_at_the_end() -> None:
    for sql in ("show views;", "show views ; ;", "show views -- now", "/* first */ show views"):
        assert isinstance(parse(sql), syntax.Show)
