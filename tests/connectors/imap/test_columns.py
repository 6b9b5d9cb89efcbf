"""Formats, column lists and external names of mappings over maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runnel.connectors.imap.columns import resolve_columns
from runnel.connectors.imap.connector import MapConnector
from runnel.errors import ProgrammingError
from runnel.sqltypes import BIGINT, DATE, INTEGER, JSON, TIMESTAMP_TZ, VARCHAR, array, decimal
from tests.connectors.imap.maps import open_map


@pytest.fixture
def maps() -> Iterator[MapConnector]:
    connector = MapConnector()
    yield connector
    connector.close()


def shape(table: object) -> list[tuple[str, str, bool]]:
    return [(column.name, str(column.type), column.hidden) for column in table.columns]  # type: ignore[attr-defined]


def test_without_a_column_list_key_and_value_are_the_columns(maps: MapConnector) -> None:
    table = open_map(maps, key="bigint", value="varchar")
    assert shape(table) == [("__key", "BIGINT", False), ("this", "VARCHAR", False)]
    assert table.key_columns == (0,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INT", "INTEGER"),
        ("integer", "INTEGER"),
        ("Timestamp  with time zone", str(TIMESTAMP_TZ)),
        ("decimal", "DECIMAL(38, 10)"),
    ],
)
def test_type_names(maps: MapConnector, text: str, expected: str) -> None:
    assert shape(open_map(maps, key=text))[0] == ("__key", expected, False)


def test_keys_only(maps: MapConnector) -> None:
    assert shape(open_map(maps, key="varchar", value=None)) == [("__key", "VARCHAR", False)]


def test_json_is_one_column(maps: MapConnector) -> None:
    assert shape(open_map(maps, key="json", value="json")) == [
        ("__key", "JSON", False),
        ("this", "JSON", False),
    ]


def test_columns_are_fields_of_the_value(maps: MapConnector) -> None:
    table = open_map(
        maps,
        ("ticker", VARCHAR),
        ("__key", BIGINT),
        ("p", decimal(10, 2), "this.price"),
        value="json-flat",
    )
    assert [column.name for column in table.columns] == ["ticker", "__key", "p"]
    assert [column.external_name for column in table.columns] == ["this.ticker", None, "this.price"]
    assert table.key_columns == (1,)


def test_the_key_may_have_another_name(maps: MapConnector) -> None:
    table = open_map(maps, ("v", BIGINT, "this"), ("id", BIGINT, "__key"))
    assert shape(table) == [("v", "BIGINT", False), ("id", "BIGINT", False)]
    assert table.key_columns == (1,)


def test_key_fields_make_a_composite_key(maps: MapConnector) -> None:
    table = open_map(
        maps,
        ("b", BIGINT, "__key.b"),
        ("v", VARCHAR),
        ("a", INTEGER, "__key.a"),
        key="compact",
        value="json-flat",
    )
    assert table.key_columns == (2, 0)


def test_a_side_that_is_not_declared_is_hidden(maps: MapConnector) -> None:
    assert shape(open_map(maps, ("this", VARCHAR), key="int", value="varchar")) == [
        ("__key", "INTEGER", True),
        ("this", "VARCHAR", False),
    ]
    assert shape(open_map(maps, ("__key", INTEGER), key="int", value="varchar")) == [
        ("__key", "INTEGER", False),
        ("this", "VARCHAR", True),
    ]


def test_java_class_names_of_single_values(maps: MapConnector) -> None:
    from runnel.connector import MappingDefinition

    options = {
        "keyFormat": "java",
        "keyJavaClass": "java.lang.Long",
        "valueFormat": "java",
        "valueJavaClass": "java.lang.String",
    }
    table = maps.open(MappingDefinition("m", (), options))
    assert shape(table) == [("__key", "BIGINT", False), ("this", "VARCHAR", False)]


def test_a_decimal_key_has_the_declared_digits(maps: MapConnector) -> None:
    assert shape(open_map(maps, ("__key", decimal(5, 1)), key="decimal"))[0] == (
        "__key",
        "DECIMAL(5, 1)",
        False,
    )


WRONG = [
    (
        {},
        "bogint",
        "bigint",
        "unsupported serialization format 'bogint' in option \"keyFormat\"",
        'did you mean "bigint"?',
    ),
    (
        [],
        "json-flat",
        "bigint",
        "a column list with the fields of \"__key\" is required for keyFormat 'json-flat'",
        "EXTERNAL NAME",
    ),
    (
        [],
        "bigint",
        "json-flat",
        'a column list with the fields of "this" is required',
        "declare each field",
    ),
    (
        [("__key", INTEGER)],
        "bigint",
        "bigint",
        "column \"__key\" is INTEGER, but keyFormat 'bigint' is BIGINT",
        "BIGINT",
    ),
    (
        [("x", BIGINT)],
        "bigint",
        "bigint",
        'column "x" is a field of "this", which is a single value',
        "json-flat",
    ),
    (
        [("x", BIGINT, "foo")],
        "bigint",
        "json-flat",
        'invalid external name "foo" of column "x"',
        '"this.<field>"',
    ),
    (
        [("x", BIGINT, "this.a.b")],
        "bigint",
        "json-flat",
        'invalid external name "this.a.b"',
        '"this.<field>"',
    ),
    (
        [("x", BIGINT, "this.y"), ("y", BIGINT)],
        "bigint",
        "json-flat",
        'columns "x" and "y" have the same external name',
        None,
    ),
    ([("x", BIGINT), ("X", BIGINT)], "bigint", "json-flat", 'column "X" is declared twice', None),
    (
        [("this", BIGINT), ("x", BIGINT)],
        "bigint",
        "json-flat",
        'column "this" is the whole of "this"',
        "valueFormat",
    ),
    (
        [("k", array(BIGINT), "__key.k")],
        "json-flat",
        None,
        'column "k" can\'t be a key, as its type is BIGINT[]',
        None,
    ),
    ([("__key", JSON)], "json-flat", None, "a column list with the fields", None),
]


@pytest.mark.parametrize(
    ("columns", "key", "value", "message", "hint"), WRONG, ids=range(len(WRONG))
)
def test_what_does_not_go_together_is_refused(
    maps: MapConnector,
    columns: list[tuple[str, object]],
    key: str,
    value: str | None,
    message: str,
    hint: str | None,
) -> None:
    with pytest.raises(ProgrammingError) as caught:
        open_map(maps, *columns, key=key, value=value)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_reserved_names_and_object_types(maps: MapConnector) -> None:
    from runnel.connector import MappingDefinition

    with pytest.raises(ProgrammingError, match="reserved"):
        open_map(maps, external="__jet.jobs")
    with pytest.raises(ProgrammingError, match="object types"):
        maps.open(MappingDefinition("m", (), {"keyFormat": "int"}, object_type="Collection"))


def test_a_key_is_required(maps: MapConnector) -> None:
    from runnel.connector import MappingDefinition

    with pytest.raises(ProgrammingError, match="the mapping has no key") as raised:
        maps.open(MappingDefinition("m", (), {"valueFormat": "bigint"}))
    assert '"__key"' in str(raised.value.hint)


@pytest.mark.parametrize(
    ("columns", "paths"),
    [
        ([("__key", BIGINT)], ("__key",)),
        ([("__key", BIGINT), ("this", VARCHAR)], ("__key", "this")),
        ([("__key", VARCHAR), ("x", BIGINT)], ("__key", "this.x")),
        ([("a", BIGINT, "__key.a"), ("b", DATE, "__key.b"), ("x", DATE)],
         ("__key.a", "__key.b", "this.x")),
    ],
)  # fmt: skip
def test_the_columns_determine_formats_that_are_left_out(
    columns: list[tuple[Any, ...]], paths: tuple[str, ...]
) -> None:
    from runnel.connector import ColumnDefinition, MappingDefinition

    declared = tuple(ColumnDefinition(*column) for column in columns)
    _, layout = resolve_columns(MappingDefinition("m", declared, {}))
    assert layout.paths == paths
    assert layout.types == tuple(column[1] for column in columns)
