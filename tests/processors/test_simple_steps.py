"""Filter and projection, literal rows, UNION ALL, the result sink, and batches without columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runnel.columns.batches import empty_columns, make_batch, slices
from runnel.errors import InternalError
from runnel.expressions import build
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.expressions.nodes import Literal, Parameter
from runnel.processors.calc import calc
from runnel.processors.sinks.result_queue import result_sink
from runnel.processors.sources.values import values
from runnel.processors.union import union
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.testing import verify_processor
from tests.processors.places import place
from tests.processors.random_tables import columns_of, random_table


def test_calc_filters_and_projects() -> None:
    table = random_table(5, 40, "isn")
    columns = columns_of(table)
    condition = build.call("is_not_null", [columns["s"]])
    supplier = calc(condition, (columns["n"], columns["s"]), ("a", "b"))
    wanted = [(row["n"], row["s"]) for row in table.to_pylist() if row["s"] is not None]
    verify_processor(supplier, [table.to_batches(max_chunksize=9)], wanted)


def test_calc_without_projection_keeps_all_columns() -> None:
    table = random_table(5, 10, "in")
    condition = build.call("ge", [columns_of(table)["n"], Literal(value=5, type=BIGINT)])
    supplier = calc(condition, None, ("x", "y"))
    verify_processor(
        supplier, [table.to_batches()], [tuple(row.values()) for row in table.to_pylist()[5:]]
    )


def test_calc_of_constants_only() -> None:
    one = Literal(value=1, type=BIGINT)
    verify_processor(calc(None, (one,), ("one",)), [[empty_columns(3)]], [(1,)] * 3)
    verify_processor(calc(None, (), ()), [[empty_columns(3)]], [()] * 3)


def test_values() -> None:
    parameter = Parameter(index=0, type=VARCHAR)
    rows = (
        (Literal(value=1, type=BIGINT), Literal(value="a", type=VARCHAR)),
        (Literal(value=None, type=BIGINT), parameter),
    )
    evaluation = EvaluationContext(arguments=(scalar_of("b", VARCHAR),))
    verify_processor(
        values(rows, ("n", "s")),
        [],
        [(1, "a"), (None, "b")],
        evaluation=evaluation,
        snapshots=False,
    )


def test_values_without_columns_and_without_rows() -> None:
    verify_processor(values(((),), ()), [], [()], snapshots=False)
    verify_processor(values((), ()), [], [], snapshots=False)


def test_only_one_processor_emits_values() -> None:
    supplier = values(((Literal(value=1, type=BIGINT),),), ("n",))
    seen = []
    for index in range(3):
        processor = supplier()
        outbox, context = place(index=index, parallelism=3)
        processor.init(outbox, context)
        assert processor.complete()
        seen += outbox.values
    assert seen == [1]


def test_union_passes_on_all_inputs_under_one_schema() -> None:
    first, second = (
        pa.RecordBatch.from_pydict({"a": [1, 2]}),
        pa.RecordBatch.from_pydict({"b": [2, 3]}),
    )
    verify_processor(union(("a",)), [[first], [second]], [(1,), (2,), (2,), (3,)])
    verify_processor(union(), [[first], []], [(1,), (2,)])


def test_the_result_sink_writes_to_the_results() -> None:
    table = random_table(5, 20, "sn")
    verify_processor(result_sink(), [table.to_batches(max_chunksize=6)], table, outputs=0)


def test_a_result_sink_needs_results() -> None:
    with pytest.raises(InternalError, match="without a result queue"):
        result_sink()().init(*place())


def test_batches_without_columns_keep_their_rows() -> None:
    batch = make_batch([], pa.schema([]), 10)
    assert batch.num_rows == 10
    assert [piece.num_rows for piece in slices(batch, 4)] == [4, 4, 2]
    assert pa.concat_batches([batch, batch]).num_rows == 20
