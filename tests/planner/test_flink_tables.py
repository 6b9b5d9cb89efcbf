"""CREATE TABLE … WITH ('connector' = 'kafka'): the mapping that stands for a table of Flink."""

from __future__ import annotations

import pytest

from runnel.errors import Error
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import CreateMapping

SERVERS = "'properties.bootstrap.servers' = 'k:9092'"


def mapping(columns: str, options: str) -> CreateMapping:
    found = parse(f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', {options})")
    assert isinstance(found, CreateMapping)
    return found


def options_of(found: CreateMapping) -> dict[str, str]:
    return {item.name.text: item.value for item in found.options}


def names_of(found: CreateMapping) -> list[tuple[str, str | None]]:
    return [
        (item.name.text, item.external_name and item.external_name.text) for item in found.columns
    ]


def test_a_topic_of_json() -> None:
    found = mapping(
        "id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        f"'topic' = 'a.b', {SERVERS}, 'properties.group.id' = 'g', "
        "'properties.security.protocol' = 'SSL', 'scan.startup.mode' = 'earliest-offset', "
        "'format' = 'json', 'sink.transactional-id-prefix' = 'p'",
    )
    assert found.connector is not None
    assert found.external_name is not None
    assert (found.connector.text, found.external_name.text) == ("Kafka", "a.b")
    assert found.watermark is not None
    assert options_of(found) == {
        "valueFormat": "json-flat",
        "bootstrap.servers": "k:9092",
        "security.protocol": "SSL",
        "auto.offset.reset": "earliest",
        "transactional.id": "p",
    }
    assert names_of(found) == [("id", "this.id"), ("ts", "this.ts")]


def test_offsets_of_the_group() -> None:
    group = "'properties.group.id' = 'g', 'properties.auto.offset.reset' = 'latest'"
    found = mapping("a INT", f"'topic' = 't', {SERVERS}, {group}, 'format' = 'csv'")
    assert options_of(found) == {
        "valueFormat": "csv",
        "bootstrap.servers": "k:9092",
        "group.id": "g",
        "auto.offset.reset": "latest",
    }


@pytest.mark.parametrize(
    ("key_format", "fields", "prefix", "expected"),
    [
        ("raw", "k_id", "", [("k_id", "__key"), ("name", "this.name")]),
        ("json", "k_id", "k_", [("k_id", "__key.id"), ("name", "this.name")]),
        ("avro", "k_id;name", "", [("k_id", "__key.k_id"), ("name", "__key.name")]),
    ],
)
def test_keys(
    key_format: str, fields: str, prefix: str, expected: list[tuple[str, str | None]]
) -> None:
    shortened = f", 'key.fields-prefix' = '{prefix}'" if prefix else ""
    found = mapping(
        "k_id BIGINT, name STRING",
        f"'topic' = 't', {SERVERS}, 'key.format' = '{key_format}', 'key.fields' = '{fields}', "
        f"'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'{shortened}",
    )
    assert names_of(found) == expected
    keys = {"raw": "bigint", "json": "json-flat", "avro": "avro"}
    assert options_of(found)["keyFormat"] == keys[key_format]


def test_raw_values() -> None:
    found = mapping("line STRING", f"'topic' = 't', {SERVERS}, 'format' = 'raw'")
    assert names_of(found) == [("line", "this")]
    assert options_of(found)["valueFormat"] == "varchar"


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("a INT, b INT", "'topic' = 't', 'format' = 'raw'", "it is for a single column"),
        ("a INT", "'topic' = 'a;b', 'format' = 'json'", "a mapping reads one topic"),
        ("a INT", "'topic-pattern' = 'a.*', 'format' = 'json'", "a mapping reads one topic"),
        ("a INT", "'topic' = 't', 'key.format' = 'json', 'format' = 'json'", "'key.fields'"),
        ("a INT", "'topic' = 't', 'key.fields' = 'a', 'format' = 'json'", "'key.format'"),
        ("a INT, PRIMARY KEY (a) NOT ENFORCED", "'topic' = 't'", "PRIMARY KEY of connector"),
        ("a INT", "'topic' = 't', 'format' = 'json', 'scan.bounded.mode' = 'x'", "add LIMIT"),
        ("a INT", "'topic' = 't', 'format' = 'json', 'sink.delivery-guarantee' = 'none'", "none"),
        ("a INT", "'topic' = 't', 'format' = 'json', 'json.ignore-parse-errors' = 'x'", "'true'"),
        ("a INT", "'topic' = 't', 'format' = 'json', 'json.map-null-key.mode' = 'DROP'", "leave"),
        ("a ROW<b ROW<c INT>", "'topic' = 't'", "syntax error"),
        ("a " + "ARRAY<" * 40 + "INT" + ">" * 40, "'topic' = 't'", "nested more than 16 deep"),
        ("a INT, WATERMARK FOR a AS a, WATERMARK FOR a AS a", "'topic' = 't'", "given twice"),
        ("a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED", "'a' = 'b'", "has one"),
        ("a VARCHAR(x)", "'topic' = 't'", "expected a number"),
    ],
)
def test_refusals(columns: str, options: str, message: str) -> None:
    with pytest.raises(Error) as caught:
        mapping(columns, f"{options}, {SERVERS}")
    assert message in str(caught.value)
    assert caught.value.position is not None


def test_malformed_messages_are_left_out_and_partitions_are_idle() -> None:
    found = mapping(
        "a INT, p AS PROCTIME()",
        f"'topic' = 't', {SERVERS}, 'value.format' = 'json', 'value.json.ignore-parse-errors' = "
        "'true', 'scan.watermark.idle-timeout' = '2 s'",
    )
    options = options_of(found)
    assert (options["onError"], options["idleTimeoutMillis"]) == ("skip", "2000")
    assert [(item.name.text, item.text) for item in found.computed] == [("p", "PROCTIME()")]
    assert found.watermark is not None
    assert found.watermark.column.text == "p"


@pytest.mark.parametrize(
    ("statement_set", "names"),
    [
        (
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a.b SELECT 1; INSERT INTO c SELECT 2; END",
            ["insert_into_b", "insert_into_c"],
        ),
        ("BEGIN STATEMENT SET; INSERT INTO c SELECT 2; END", ["insert_into_c"]),
    ],
)
def test_a_job_of_a_statement_set_is_one_for_each_insert(
    statement_set: str, names: list[str]
) -> None:
    with pytest.raises(Error, match="a job of a statement set is not supported") as caught:
        parse("CREATE JOB x AS " + statement_set)
    words = (caught.value.hint or "").split()
    assert [word for word in words if word.startswith("insert_into_")] == names
