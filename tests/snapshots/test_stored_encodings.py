"""The spelling of what is kept in a directory, byte by byte: no name of a class, a member or an
attribute decides it.

A test that fails here says that a directory of an earlier version wouldn't be read. To change a
spelling on purpose, write it under a new format number or version and go on reading the old one;
the old text stays in this file as something to read.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from runnel import errors
from runnel.base.error_records import CLASSES, code_name
from runnel.columns.type_records import type_of, type_record
from runnel.connector import WriteMode
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.storage.log import read_records
from runnel.connectors.imap.storage.manifest import MapManifest as MapManifest
from runnel.connectors.imap.storage.records import Record, decode, decode_type, encode, encode_type
from runnel.dag import DAG, between
from runnel.errors import (
    DatabaseError,
    DataError,
    Error,
    ErrorCode,
    FetchTimeoutError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from runnel.expressions.kernels.result_size import TooManyRows
from runnel.named_jobs.hand_built.dag_record import dag_from_json, dag_to_json, state_texts
from runnel.named_jobs.record.options import NamedJobOptions
from runnel.named_jobs.record.record import JobRecord, RecordedError
from runnel.named_jobs.record.stored_metrics import (
    MAX_PROCESSORS,
    metrics_from_json,
    metrics_to_json,
)
from runnel.processor import ExpiredPosition, Guarantee, Watermark
from runnel.processors.library import (
    AggregateOperation,
    aggregate_by_key,
    aggregate_by_session,
    counting,
    distinct_rows,
    hash_join,
    source_of,
)
from runnel.processors.sources.scan_state import SavedPartition
from runnel.processors.sources.scan_state import decode as decode_partitions
from runnel.processors.sources.scan_state import encode as encode_partitions
from runnel.relation.state_identity import VERSION, Form, StateSignature, StateWindows
from runnel.relation.streams import WindowKind, WindowShape
from runnel.runtime.latency import LatencyHistogram
from runnel.runtime.light_job import JobStatus
from runnel.runtime.metrics import COUNTS, ProcessorMetrics, VertexMetrics
from runnel.serving.messages import error_message, error_of
from runnel.snapshots.manifest import DamagedError, Section, SnapshotManifest, encode_manifest
from runnel.sqltypes import BIGINT, DATE, VARCHAR, Kind, SqlType, array, decimal, map_of, row
from runnel.storage.value_codec import decode as decode_value
from runnel.storage.value_codec import encode as encode_value
from runnel.testing.bench import BenchInbox, BenchOutbox
from tests.jobs.hand_built import steps
from tests.processors.places import place

CHANGED = "a stored spelling has changed: write it as another version, and go on reading this one"

OPTIONS = NamedJobOptions(
    guarantee=Guarantee.AT_LEAST_ONCE,
    snapshot_interval=500,
    initial_snapshot="s",
    suspend_on_failure=True,
    accumulation_limit=7,
    is_measured=True,
    retention=60_000,
    modules=("a.py", "b.py"),
    runtime="spark",
    expired_position=ExpiredPosition.EARLIEST,
    empties_state=True,
)
ARGUMENTS = (
    *(
        None,
        True,
        3,
        "x",
        0.5,
        b"ab",
        Decimal("1.50"),
        datetime(2026, 1, 2, 3, 4, 5, 6),
        date(2026, 1, 2),
        time(3, 4),
    ),
    *(timedelta(seconds=1), UUID(int=5), [1, b"c"], (1, "y"), {"k": Decimal(2)}),
)
LATENCY = LatencyHistogram()
LATENCY.add(7)
LATENCY.add(1000)
METRICS = {
    "scan a": VertexMetrics(
        "scan a",
        (
            ProcessorMetrics(
                0,
                *range(1, 9),
                state="END",
                watermark=9,
                held_by="scan a, partition 1",
                late_rows=10,
                malformed_records=11,
                skipped_rows=12,
                tasks_done=13,
                tasks=14,
                state_rows=15,
                state_bytes=16,
                spilled_bytes=17,
                latency=LATENCY,
            ),
            ProcessorMetrics(1, *[0] * 8, state="END", watermark=None, held_by=None),
        ),
        18,
    )
}
RECORD = JobRecord(
    id=4,
    name="j",
    query="SINK INTO m SELECT 1",
    text="CREATE JOB j AS SINK INTO m SELECT 1",
    options=OPTIONS,
    created=1,
    zone="Europe/Paris",
    arguments=ARGUMENTS,
    status=JobStatus.SUSPENDED,
    started=2,
    finished=3,
    restarts=4,
    last_error=RecordedError.of(ProgrammingError("wrong", detail="d", hint="h")),
    is_user_cancelled=True,
    is_unbounded=True,
    is_resumable=True,
    resumes=True,
    may_drop_state=True,
    guarantee="atLeastOnce",
    signatures={"scan a": "read a"},
    modules={"m": "x = 1"},
    beginnings={"scan a": {"0": {"offset": 5}}},
    runtime="spark",
    is_confined=True,
    rows_in=5,
    rows_out=6,
    late_rows=7,
    late_in_all=8,
    last_batch=(9, 10),
    snapshot=11,
    metrics=metrics_to_json(METRICS),
)
MEANING = StateSignature(
    text="t",
    name="n",
    form=Form.FRAMES,
    keeps=True,
    same={"by": "k"},
    reads=("a",),
    watermarks={1: "a"},
    windows=StateWindows(
        shape=WindowShape(WindowKind.HOP, 20, 5, 1),
        is_integer=True,
        keys=("k BIGINT",),
        key_indexes=(-2, 0),
        bound="int64",
        every=9,
        lateness=3,
    ),
    columns=(("t BIGINT",),),
    column_names=(("t",),),
    holds=("a",),
)
RECORD_TEXT = (
    '{"format": 2, "id": 4, "name": "j", "query": "SINK INTO m SELECT 1", "text": "CREATE JOB j AS '
    "SINK INTO m SE"
    'LECT 1", "options": {"guarantee": "atLeastOnce", "snapshot_interval": 500, '
    '"initial_snapshot": "s", "suspend_on_failure": true, "accumulation_limit": 7, '
    '"is_measured": true, "retention": 60000, "modules": ["a.py", "b'
    '.py"], "runtime": "spark", "expired_position": "earliest", "empties_state": true}, "created": '
    '1, "zone": "Europe/Paris", "arguments": [null, true, 3, "x", {"float": "0.5"}, '
    '{"bytes": "YWI="}, {"decimal": "1.50"}, {"d'
    'atetime": "2026-01-02T03:04:05.000006"}, {"date": "2026-01-02"}, {"time": "03:04:00"}, '
    '{"interval": 1000000}, {"uuid": "00000000-0000-0000-0000-000000000005"}, '
    '{"list": [1, {"bytes": "Yw=="}]}, {"tuple": [1, "y"]}, {'
    '"dict": [["k", {"decimal": "2"}]]}], "status": "SUSPENDED", "started": 2, "finished": 3, '
    '"restarts": 4, "last_error": {"kind": "ProgrammingError", "code": "PARSING", '
    '"message": "wrong", "detail": "d", "hint": "h"}, "'
    'is_user_cancelled": true, "is_unbounded": true, "is_resumable": true, "resumes": true, '
    '"may_drop_state": true, "promise": "atLeastOnce", "meanings": {"scan a": "read a"}, '
    '"modules": {"m": "x = 1"}, "beginnings": {"sc'
    'an a": {"0": {"offset": 5}}}, "runtime": "spark", "is_confined": true, "rows_in": 5, '
    '"rows_out": 6, "late_rows": 7, "late_in_all": 8, "last_batch": [9, 10], "snapshot": 11, '
    '"metrics": [{"vertex": "scan a", "capacity": 18, "processors": [{"index": 0, "state": "END", '
    '"rows_in": 1, "rows_out": 2, "batches_in": 3, "batches_out": 4, "bytes_out": 5, "calls": 6, '
    '"busy": 7, "queued": 8, "late_rows": 10, "malformed_records": 11, "skipped_rows": 12, '
    '"tasks_done": 13, "tasks": 14, "state_rows": 15, "state_bytes": 16, "spilled_bytes": 17, '
    '"watermark": 9, "held_by": "scan a, partition 1", "latency": [[7, 1], [111, 1]]}, '
    '{"index": 1, "state": "END"}]}]}'
)
MEANING_TEXT = (
    '{"text": "t", "name": "n", "form": "frames", "keeps": true, "same": {"by": "k"}, "reads": '
    '["a"], "watermarks": {"1": "a"}, "windows": {"shape": {"kind": "hop", "size": 20, "step": 5, '
    '"offset": 1}, "is_integer": true,'
    ' "keys": ["k BIGINT"], "places": [-2, 0], "bound": "int64", "every": 9, "lateness": 3}, '
    '"columns": [["t BIGINT"]], "column_names": [["t"]], "holds": ["a"]}'
)

TYPES: list[tuple[SqlType, str, str]] = [
    (SqlType(Kind.NULL), '{"kind": "NULL"}', '"NULL"'),
    (SqlType(Kind.INTERVAL_MONTH), '{"kind": "INTERVAL_MONTH"}', '"INTERVAL_MONTH"'),
    (SqlType(Kind.INTERVAL), '{"kind": "INTERVAL"}', '"INTERVAL"'),
    (SqlType(Kind.INTERVAL_MIXED), '{"kind": "INTERVAL_MIXED"}', '"INTERVAL_MIXED"'),
    (SqlType(Kind.JSON), '{"kind": "JSON"}', '"JSON"'),
    (SqlType(Kind.VARBINARY), '{"kind": "VARBINARY"}', '"VARBINARY"'),
    (SqlType(Kind.VARCHAR), '{"kind": "VARCHAR"}', '"VARCHAR"'),
    (SqlType(Kind.BOOLEAN), '{"kind": "BOOLEAN"}', '"BOOLEAN"'),
    (SqlType(Kind.TINYINT), '{"kind": "TINYINT"}', '"TINYINT"'),
    (SqlType(Kind.SMALLINT), '{"kind": "SMALLINT"}', '"SMALLINT"'),
    (SqlType(Kind.INTEGER), '{"kind": "INTEGER"}', '"INTEGER"'),
    (SqlType(Kind.BIGINT), '{"kind": "BIGINT"}', '"BIGINT"'),
    (SqlType(Kind.REAL), '{"kind": "REAL"}', '"REAL"'),
    (SqlType(Kind.DOUBLE), '{"kind": "DOUBLE"}', '"DOUBLE"'),
    (SqlType(Kind.TIME), '{"kind": "TIME"}', '"TIME"'),
    (SqlType(Kind.DATE), '{"kind": "DATE"}', '"DATE"'),
    (SqlType(Kind.TIMESTAMP), '{"kind": "TIMESTAMP"}', '"TIMESTAMP"'),
    (SqlType(Kind.TIMESTAMP_TZ), '{"kind": "TIMESTAMP_TZ"}', '"TIMESTAMP_TZ"'),
    (SqlType(Kind.UUID), '{"kind": "UUID"}', '"UUID"'),
    (decimal(5, 2), '{"kind": "DECIMAL", "precision": 5, "scale": 2}', '["DECIMAL", 5, 2]'),
    (array(BIGINT), '{"kind": "ARRAY", "element": {"kind": "BIGINT"}}', '["ARRAY", "BIGINT"]'),
    (
        map_of(VARCHAR, DATE),
        '{"kind": "MAP", "element": {"kind": "DATE"}, "key": {"kind": "VARCHAR"}}',
        '["MAP", "DATE", "VARCHAR"]',
    ),
    (
        row(("a", BIGINT), ("b", array(VARCHAR))),
        (
            '{"kind": "ROW", "fields": [["a", {"kind": "BIGINT"}], ["b", {"kind": "ARRAY", '
            '"element": {"kind": "VARCHAR"}}]]}'
        ),
        '["ROW", ["a", "BIGINT"], ["b", ["ARRAY", "VARCHAR"]]]',
    ),
]

CAUSES = (
    "ArgumentsError ConversionException InvalidTextRepresentation CastOutOfRange "
    "OutOfRangeException DivisionByZero IOException UndefinedFile ConnectionException "
    "OutOfMemoryException QueryCanceled InterruptException TransactionException "
    "TransactionState UniqueViolation ForeignKeyViolation NotNullViolation "
    "CheckViolation ParserException BinderException UndefinedColumn AmbiguousColumn "
    "GroupingError CatalogException UndefinedObject UndefinedTable UndefinedFunction "
    "InvalidSchemaName DependencyException DuplicateObject DuplicateTable "
    "DuplicateSchema DuplicateColumn PermissionException InvalidInputException"
).split()

ERRORS: list[tuple[Error, str]] = [
    (Error("x"), "Error"),
    (InterfaceError("x"), "InterfaceError"),
    (DatabaseError("x"), "DatabaseError"),
    (DataError("x"), "DataError"),
    (OperationalError("x"), "OperationalError"),
    (IntegrityError("x"), "IntegrityError"),
    (InternalError("x"), "InternalError"),
    (ProgrammingError("x"), "ProgrammingError"),
    (NotSupportedError("x"), "NotSupportedError"),
    (FetchTimeoutError("x"), "OperationalError"),
    *((getattr(errors, name)("x"), name) for name in CAUSES),
    (TooManyRows("x", "y"), "DataError"),
    (DamagedError("x"), "OperationalError"),
]

CODES = {
    "GENERIC": -1,
    "CONNECTION_PROBLEM": 1001,
    "CANCELLED": 1003,
    "TIMEOUT": 1004,
    "PARSING": 1008,
    "INDEX_INVALID": 1009,
    "OBJECT_NOT_FOUND": 1010,
    "RESTARTABLE": 1012,
    "DATA_EXCEPTION": 2000,
    "DUPLICATE_KEY": 2001,
    "NOT_SUPPORTED": 2002,
    "INPUT_OUTPUT": 2003,
    "INTERFACE": 2004,
    "INTERNAL": 2005,
    "OUT_OF_MEMORY": 2006,
    "POSITION_EXPIRED": 3001,
    "NOT_ALLOWED": 3002,
}

NAMES: list[tuple[type[Enum], list[Any]]] = [
    (Form, ["other", "groups", "frames", "windows", "sessions", "session rows", "rows"]),
    (WindowKind, ["tumble", "hop", "cumulate", "session"]),
    (
        JobStatus,
        [
            "NOT_RUNNING",
            "STARTING",
            "RUNNING",
            "SUSPENDED",
            "SUSPENDED_EXPORTING_SNAPSHOT",
            "COMPLETING",
            "FAILED",
            "COMPLETED",
        ],
    ),
    (Guarantee, ["none", "atLeastOnce", "exactlyOnce"]),
    (ExpiredPosition, ["fail", "earliest", "latest"]),
    (WriteMode, ["insert", "sink", "update", "delete", "changes"]),
]
"""The values of enums that are stored."""

DAG_TEXT = (
    '{"format": 1, "vertices": [{"name": "read", "supplier": {"call": [{"name": "runnel.proce'
    'ssors.library:source_of"}, [{"name": "tests.jobs.hand_built.steps:doubled"}], {}]}, "par'
    'allelism": null}, {"name": "split", "supplier": {"partial": [{"name": "tests.jobs.hand_b'
    'uilt.steps:Adder"}, [5], {}]}, "parallelism": 2}, {"name": "count", "supplier": {"call":'
    ' [{"name": "runnel.processors.library:aggregate_by_key"}, ["k"], {"n": {"call": [{"name"'
    ': "runnel.processors.library:counting"}, [], {}]}, "m": {"record": ["runnel.processors.l'
    'ibrary:AggregateOperation", {"create": {"name": "builtins:dict"}, "accumulate": {"name":'
    ' "tests.jobs.hand_built.steps:seen"}, "combine": {"name": "tests.jobs.hand_built.steps:m'
    'erged"}, "export": {"name": "tests.jobs.hand_built.steps:total"}, "deduct": null, "type"'
    ': null, "equivalent": null}]}}]}, "parallelism": null}, {"name": "write", "supplier": {"'
    'record": ["tests.jobs.hand_built.steps:Adders", {"first": 3}]}, "parallelism": 1}], "edg'
    'es": [{"source": "read", "target": "split", "source_ordinal": 0, "target_ordinal": 0, "r'
    'outing": "isolated", "keys": [], "priority": 1, "queue_size": 16, "watermarks": null}, {'
    '"source": "split", "target": "count", "source_ordinal": 0, "target_ordinal": 0, "routing'
    '": "partitioned", "keys": ["k"], "priority": 0, "queue_size": 16, "watermarks": [[0, 1]]'
    '}, {"source": "count", "target": "write", "source_ordinal": 0, "target_ordinal": 0, "rou'
    'ting": "unicast", "keys": [], "priority": 0, "queue_size": 3, "watermarks": null}]}'
)
STATE_TEXTS = {
    "read": ("DAG runnel.processors.library:source_of(tests.jobs.hand_built.steps:doubled)"),
    "split": ("DAG tests.jobs.hand_built.steps:Adder"),
    "count": (
        "DAG runnel.processors.library:aggregate_by_key('k', n=runnel.processors.library:"
        "counting(), m=runnel.processors.library:AggregateOperation(1adf5dacffcad785))"
    ),
    "write": ("DAG tests.jobs.hand_built.steps:Adders"),
}


def default_fields(value: Any) -> list[str]:
    """The fields that a value leaves at their defaults: these would come back by themselves."""
    found = [
        item
        for item in fields(value)
        if item.default is not MISSING and getattr(value, item.name) == item.default
    ]
    made = [item for item in fields(value) if item.default_factory is not MISSING]
    return [
        item.name
        for item in (
            *found,
            *(item for item in made if getattr(value, item.name) == item.default_factory()),
        )
    ]


def test_the_record_of_a_job() -> None:
    assert default_fields(RECORD) == ["dag", "path"] and default_fields(OPTIONS) == ["state_limit"]
    assert json.dumps(RECORD.to_json(), ensure_ascii=False) == RECORD_TEXT, CHANGED
    assert JobRecord.from_json(json.loads(RECORD_TEXT)) == RECORD


def test_the_record_of_a_job_whose_state_is_limited() -> None:
    value = json.loads(RECORD_TEXT)
    value["options"]["state_limit"] = 1_000
    record = replace(RECORD, options=replace(RECORD.options, state_limit=1_000))
    assert json.loads(json.dumps(record.to_json())) == value, CHANGED
    assert JobRecord.from_json(value) == record


def test_the_record_of_a_job_with_a_path() -> None:
    value = {**json.loads(RECORD_TEXT), "format": 4, "path": ["shop", ""]}
    record = replace(RECORD, path=("shop", ""))
    assert json.loads(json.dumps(record.to_json())) == value, CHANGED
    assert JobRecord.from_json(value) == record


def test_the_metrics_of_a_job() -> None:
    (stored,) = metrics_from_json(json.loads(json.dumps(metrics_to_json(METRICS)))).values()
    (vertex,) = METRICS.values()
    for before, after in zip(vertex.processors, stored.processors, strict=True):
        assert replace(before, latency=None) == replace(after, latency=None)
    assert stored.latency(0.1, 1.0) == vertex.latency(0.1, 1.0) == [7, 1023]
    assert stored.queue_capacity == 18


def test_metrics_of_many_processors_are_stored_as_sums() -> None:
    (vertex,) = METRICS.values()
    busy, idle = vertex.processors
    many = VertexMetrics("scan a", (*[busy] * MAX_PROCESSORS, idle), 5)
    (stored,) = metrics_from_json(metrics_to_json({"scan a": many})).values()
    (total,) = stored.processors
    for name in COUNTS:
        assert getattr(total, name) == getattr(many, name) == MAX_PROCESSORS * getattr(busy, name)
    assert (total.watermark, stored.latency(0.1, 1.0)) == (9, [7, 1023])
    vertices = {str(n): VertexMetrics(str(n), (idle,), 0) for n in range(2 * MAX_PROCESSORS)}
    assert len(metrics_to_json(vertices)) == MAX_PROCESSORS


@pytest.mark.parametrize(
    "metrics",
    [5, [5], ["a"], [{}], [{"vertex": "a", "capacity": 0, "processors": [1]}]]
    + [
        [{"vertex": "a", "capacity": 0, "processors": [{"index": 0, "state": "END", **item}]}]
        for item in ({"latency": 5}, {"latency": [[99999, 1]]}, {"latency": [[1]]})
    ],
)
def test_a_record_with_damaged_metrics(metrics: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        JobRecord.from_json({**json.loads(RECORD_TEXT), "metrics": metrics})


def test_the_record_of_a_hand_built_job() -> None:
    dag = DAG()
    source = dag.vertex("read", source_of(steps.doubled))
    split = dag.vertex("split", partial(steps.Adder, 5), 2)
    count = dag.vertex("count", aggregate_by_key("k", n=counting(), m=steps.SUMS))
    sink = dag.vertex("write", steps.Adders(3), 1)
    dag.edge(between(source, split).isolated().with_priority(1))
    dag.edge(between(split, count).partitioned("k").with_watermarks({0: 1}))
    dag.edge(between(count, sink).with_queue_size(3))
    content = dag_to_json(dag)
    assert json.dumps(content) == DAG_TEXT, CHANGED
    assert dag_to_json(dag_from_json(content)) == content
    assert state_texts(content) == STATE_TEXTS, CHANGED
    record = replace(RECORD, dag=content)
    stored = record.to_json()
    assert stored["format"] == 3 and stored["dag"] == content
    assert JobRecord.from_json(stored) == record


EVENTS = pa.record_batch({"k": ["a", "b", "a"], "t": [3, 40, 5]})
WORDS = pa.record_batch({"key": ["a"], "name": ["one"]})
BY_SESSION = aggregate_by_session("k", time="t", gap=5, n=steps.COUNTED)


@pytest.mark.parametrize(
    ("step", "batches", "stored"),
    [
        (distinct_rows("k"), {0: EVENTS}, [({"k": ["a", "b"]}, "k")]),
        (
            hash_join(EVENTS.schema, WORDS.schema, {"k": "key"}),
            {0: WORDS},
            [({"key": ["a"], "name": ["one"], "matched": [False]}, None)],
        ),
        (
            hash_join(EVENTS.schema, WORDS.schema, {"k": "key"}, partitioned=True),
            {0: WORDS},
            [({"key": ["a"], "name": ["one"], "matched": [False]}, "key")],
        ),
        (
            hash_join(EVENTS.schema, [WORDS.schema], [{"k": "key"}], partitioned=True),
            {0: WORDS},
            [({"key": ["a"], "name": ["one"], "0 matched": [False]}, "key")],
        ),
        (
            BY_SESSION,
            {0: EVENTS},
            [
                ({"$watermark": [20]}, None),
                ({"$ended_watermark": [10]}, None),
                (
                    {"$first": [40], "$last": [40], "k": ["b"], "n": [b'{"list": [1]}']},
                    "k",
                ),
            ],
        ),
    ],
    ids=["distinct", "join", "partitioned join", "star join", "sessions"],
)
def test_the_state_of_steps(step: Any, batches: dict[int, pa.RecordBatch], stored: Any) -> None:
    processor, outbox = step(), BenchOutbox(1, tight=False)
    processor.init(outbox, place()[1])
    for ordinal, batch in batches.items():
        processor.process(ordinal, BenchInbox([batch]))
    processor.process_watermark(Watermark(20))
    outbox.saving = True
    assert processor.save_snapshot()
    found = [batch for batch in outbox.state if batch.schema.names != ["$input schema"]]
    assert [
        (
            batch.to_pydict(),
            (batch.schema.metadata or {}).get(b"runnel.state.key", b"").decode() or None,
        )
        for batch in found
    ] == stored, CHANGED


VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (5, 5),
    ("a", "a"),
    (1.5, {"float": "1.5"}),
    (b"ab", {"bytes": "YWI="}),
    (Decimal("1.50"), {"decimal": "1.50"}),
    (datetime(2026, 1, 2, 3), {"datetime": "2026-01-02T03:00:00"}),
    (date(2026, 1, 2), {"date": "2026-01-02"}),
    (time(3, 4), {"time": "03:04:00"}),
    (timedelta(seconds=1), {"interval": 1000000}),
    (UUID(int=1), {"uuid": "00000000-0000-0000-0000-000000000001"}),
    ([1, [2]], {"list": [1, {"list": [2]}]}),
    ((1, 2), {"tuple": [1, 2]}),
    (frozenset({3}), {"set": [3]}),
    ({"a": (1,)}, {"dict": [["a", {"tuple": [1]}]]}),
    (Guarantee.NONE, {"enum": ["runnel.processor:Guarantee", "NONE"]}),
    (steps.one, {"name": "tests.jobs.hand_built.steps:one"}),
    (int, {"name": "builtins:int"}),
    (steps.Adders(2), {"record": ["tests.jobs.hand_built.steps:Adders", {"first": 2}]}),
    (
        counting(),
        {"call": [{"name": "runnel.processors.library:counting"}, [], {}]},
    ),
]


@pytest.mark.parametrize(("value", "stored"), VALUES, ids=lambda item: type(item).__name__)
def test_values(value: Any, stored: Any) -> None:
    assert encode_value(value) == stored, CHANGED
    found = decode_value(json.loads(json.dumps(stored)))
    assert type(found) is type(value)
    if not isinstance(value, AggregateOperation):
        assert found == value


@pytest.mark.parametrize(
    "value",
    [
        pa.table({"a": [1, None]}),
        pa.record_batch({"a": pa.array(["x"])}),
        pa.record_batch({"a": pa.array([], pa.int8())}),
        pa.schema({"a": pa.list_(pa.int64())}),
        pa.decimal128(9, 2),
    ],
    ids=str,
)
def test_arrow_values(value: Any) -> None:
    assert decode_value(json.loads(json.dumps(encode_value(value)))).equals(value)


def test_functions_with_arguments() -> None:
    stored = encode_value(partial(max, 3, key=abs))
    assert stored == {"partial": [{"name": "builtins:max"}, [3], {"key": {"name": "builtins:abs"}}]}
    assert decode_value(stored)(-5) == -5


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "a value of class object"),
        ([lambda: 0], "a lambda"),
        ("a".join, "a method of a value of class str"),
        (pa.table({"a": ["x" * 2_000_000]}), "Arrow data of 2,000,004 bytes"),
    ],
)
def test_values_without_a_stored_form(value: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        encode_value(value)


def test_a_record_of_an_earlier_version_lacks_what_was_added() -> None:
    value = json.loads(RECORD_TEXT)
    least = (
        "format",
        "id",
        "name",
        "query",
        "text",
        "options",
        "created",
        "arguments",
        "status",
        "last_error",
    )
    found = JobRecord.from_json(
        {**{name: value[name] for name in least}, "options": {}, "unknown": 1}
    )
    assert found.options == NamedJobOptions()
    assert (found.zone, found.runtime, found.snapshot, found.last_batch) == (
        "UTC",
        "tasklets",
        None,
        (),
    )
    assert found.metrics == ()
    assert found.last_error == RECORD.last_error


def test_what_a_vertex_is_for() -> None:
    assert MEANING.windows is not None
    assert (
        default_fields(MEANING)
        == default_fields(MEANING.windows)
        == default_fields(MEANING.windows.shape)
        == []
    )
    assert MEANING.encode() == MEANING_TEXT, CHANGED
    assert StateSignature.decode(MEANING_TEXT) == MEANING


def test_what_a_vertex_is_for_has_a_version() -> None:
    assert VERSION == 1 and "version" not in json.loads(MEANING_TEXT), (
        "only the first version is the one without a number"
    )
    with pytest.raises(OperationalError, match="later version"):
        StateSignature.decode(json.dumps({**json.loads(MEANING_TEXT), "version": 2}))


@pytest.mark.parametrize(("kind", "record", "of_maps"), TYPES, ids=lambda item: str(item)[:40])
def test_types(kind: SqlType, record: str, of_maps: str) -> None:
    assert json.dumps(type_record(kind)) == record, CHANGED
    assert json.dumps(encode_type(kind)) == of_maps, CHANGED
    assert type_of(json.loads(record)) == decode_type(json.loads(of_maps)) == kind


def test_every_kind_of_type_is_written_down() -> None:
    assert {kind.kind for kind, _, _ in TYPES} == set(Kind)


@pytest.mark.parametrize(
    ("error", "name"), ERRORS, ids=lambda item: item if isinstance(item, str) else ""
)
def test_errors(error: Error, name: str) -> None:
    assert RecordedError.of(error).to_json()["kind"] == error_message(error)["class"] == name, (
        CHANGED
    )
    recorded, received = RecordedError.of(error).error(), error_of(error_message(error))
    assert type(recorded) is type(received)
    made = getattr(errors, name)("x", code=error.code)  # the code may select a subclass
    assert type(recorded) is type(made)


def test_every_class_of_errors_is_written_down() -> None:
    there = [
        item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Error)
    ]
    assert {type(error) for error, _ in ERRORS} >= set(there)
    assert {name for _, name in ERRORS} == CLASSES.keys()


def test_codes_of_errors() -> None:
    assert {code_name(code): int(code) for code in ErrorCode} == CODES, CHANGED
    for code in ErrorCode:
        assert (
            RecordedError.from_json(RecordedError.of(OperationalError("x", code=code)).to_json())
            .error()
            .code
            is code
        )


@pytest.mark.parametrize(("kind", "values"), NAMES, ids=lambda item: getattr(item, "__name__", ""))
def test_values_of_enums(kind: type[Enum], values: list[Any]) -> None:
    assert [item.value for item in kind] == values, CHANGED


def test_an_error_of_a_class_that_is_unknown_is_operational() -> None:
    found = RecordedError.from_json({"kind": "GoneError", "code": "GONE", "message": "x"}).error()
    assert type(found) is OperationalError and found.code is OperationalError.default_code


def test_the_manifest_of_a_snapshot() -> None:
    text = encode_manifest(SnapshotManifest(3, 4, {"job": "j"}, (Section("f", "v", 0, 1, 2, 3),)))
    expected = (
        b'{"format": 2, "snapshot": 3, "created": 4, "about": {"job": "j"}, "sections": [["f", '
        b'"v", 0, 1, 2, 3]]}'
    )
    assert text.partition(b"\n")[2] == expected, CHANGED


def test_the_log_of_a_map() -> None:
    record = Record("stage", MapLayout(("__key", "this.a"), (BIGINT, VARCHAR)), (), "n", "insert")
    fields = b'"fields": [["__key", "BIGINT"], ["this.a", "VARCHAR"]], "sizes": []'
    expected = b'{"kind": "stage", "name": "n", "mode": "insert", %b}\n' % fields
    assert encode(record) == expected, CHANGED
    found = decode(expected)
    assert (found.kind, found.name, found.mode, list(found.batches)) == ("stage", "n", "insert", [])


def test_the_manifest_of_a_map(tmp_path: Path) -> None:
    MapManifest(2, 30, 40).write(tmp_path)
    (found,) = [payload for payload, _ in read_records(tmp_path / "current", may_be_torn=False)]
    assert found == b'{"generation": 2, "checkpoint": 30, "log": 40}', CHANGED


def test_the_positions_of_a_scan() -> None:
    saved = [SavedPartition("p", '{"rows": 1}', True, True, 7, True), SavedPartition("q")]
    batch = encode_partitions(saved)
    assert batch.to_pylist()[0] == {
        "partition": "p",
        "position": '{"rows": 1}',
        "is_begun": True,
        "is_ended": True,
        "watermark": 7,
        "is_idle": True,
    }, CHANGED
    assert decode_partitions(batch) == saved
    assert decode_partitions(batch.select(["partition", "position"])) == [
        SavedPartition("p", '{"rows": 1}'),
        SavedPartition("q"),
    ]
