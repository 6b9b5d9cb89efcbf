"""`verify_processor`: runs one processor under every condition that the runtime may create.

A processor must emit the same rows if its batches arrive one by one, all at once or row by row, if
its outbox is empty or nearly full, and if its state is saved and restored in a new instance at
every pause. The design follows TestSupport of Hazelcast Jet. It needs no runtime: this module is
the caller that the contract in `runnel.processor` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pyarrow as pa

from runnel.dag import ProcessorMetaSupplier, ProcessorSupplier, Supplier
from runnel.expressions.context import EvaluationContext
from runnel.processor import Item, JobContext, Processor, Watermark
from runnel.storage.memory_budget import Memory
from runnel.testing.bench import Bench, BenchLimits, Conditions
from runnel.testing.rows import assert_rows, rows_of

Expected = Any
"""Rows for `assert_rows`, or a function that checks the list of items of an output."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The options of a verification.

    priorities: the order of the inputs. An input with a smaller number is read to its end first;
        inputs with equal numbers alternate. None: input 0, then input 1, and so on.
    outputs: the number of outputs; with 0 the rows come from the job's results.
    ordered: whether the order of rows matters.
    tolerance: the largest relative difference of equal floats.
    snapshots: whether state is saved and restored.
    row_by_row: whether the batches are also divided into single rows.
    evaluation: the context in which the processor evaluates expressions.
    accumulation_limit: maximum number of rows that the processor may accumulate; 0: no limit.
    is_unbounded: whether the job reads a source without an end.
    memory: with a small limit, operators spill.
    limits: when a call counts as blocked, and the processor as stuck.
    """

    priorities: tuple[int, ...] | None = None
    outputs: int = 1
    ordered: bool = True
    tolerance: float = 1e-9
    snapshots: bool = True
    row_by_row: bool = True
    evaluation: EvaluationContext = field(default_factory=EvaluationContext)
    accumulation_limit: int = 0
    is_unbounded: bool = False
    memory: Memory | None = None
    limits: BenchLimits = field(default_factory=BenchLimits)


def verify_processor(
    supplier: Supplier,
    inputs: Sequence[Sequence[pa.RecordBatch | Watermark]],
    expected: Expected,
    verification: Verification | None = None,
    **options: Any,
) -> None:
    """Runs the processor that `supplier` makes (a factory, a supplier or a meta-supplier) under all
    conditions, and fails with an AssertionError that names the conditions.

    inputs: the items of each input; `()` for a source.
    expected: the rows of output 0, or a function of the output's items; with several outputs, a
        sequence of these.
    options: fields of `Verification`.

    It runs with the whole input at once, batch by batch and, with `row_by_row`, row by row; with an
    outbox that accepts everything, and with an outbox of one item that refuses every second offer;
    with and without snapshots. One call may use `limits.call_seconds` of CPU time, and
    `limits.idle_calls` successive calls may make no progress.
    """
    chosen = replace(verification or Verification(), **options)
    expected_items = [
        item if callable(item) else rows_of(item)
        for item in ([expected] if chosen.outputs < 2 else expected)
    ]
    slicings = (
        ("all at once", "batch by batch", "row by row")
        if chosen.row_by_row
        else ("all at once", "batch by batch")
    )
    for slicing, tight, snapshots in product(slicings, (False, True), (False, True)):
        if snapshots and not chosen.snapshots:
            continue
        conditions = Conditions(slicing=slicing, tight=tight, snapshots=snapshots)
        bench = Bench(lambda context: one_processor(supplier, context), conditions, chosen.limits)
        job = JobContext(
            job_id=1,
            evaluation=chosen.evaluation,
            clock=bench.clock.monotonic,
            results=bench.results,
            accumulation_limit=chosen.accumulation_limit,
            is_unbounded=chosen.is_unbounded,
            memory=chosen.memory,
        )
        try:
            outputs = bench.run(
                job, schedule(inputs, chosen.priorities, slicing), len(inputs), chosen.outputs
            )
            _check(outputs, expected_items, chosen)
        except AssertionError as error:
            raise AssertionError(f"{conditions}: {error}") from error


def one_processor(
    supplier: Supplier, context: JobContext
) -> tuple[Processor, Callable[[BaseException | None], None]]:
    """A single processor, and the function to call after it was closed."""
    if isinstance(supplier, ProcessorMetaSupplier):
        suppliers = supplier.get(context, 1, 1)
        assert len(suppliers) == 1, "a meta-supplier returns one supplier for each member"
        supplier = suppliers[0]
    if isinstance(supplier, ProcessorSupplier):
        processors = supplier.get(1)
        assert len(processors) == 1, "a supplier returns the requested number of processors"
        return processors[0], supplier.close
    return supplier(), lambda _: None


def schedule(
    inputs: Sequence[Sequence[pa.RecordBatch | Watermark]],
    priorities: Sequence[int] | None,
    slicing: str,
) -> Iterator[tuple[int, pa.RecordBatch | Watermark | None]]:
    """The items in the order of arrival, each with its input; None marks the end of an input."""
    order = list(range(len(inputs))) if priorities is None else list(priorities)
    for priority in sorted(set(order)):
        members = [i for i in range(len(inputs)) if order[i] == priority]
        queues = {i: list(_sliced(inputs[i], slicing)) for i in members}
        while queues:
            for ordinal in list(queues):
                if queues[ordinal]:
                    yield ordinal, queues[ordinal].pop(0)
                else:
                    del queues[ordinal]
                    yield ordinal, None


def _sliced(
    items: Sequence[pa.RecordBatch | Watermark], slicing: str
) -> Iterator[pa.RecordBatch | Watermark]:
    for item in items:
        if slicing == "row by row" and isinstance(item, pa.RecordBatch):
            for row in range(item.num_rows):
                yield item.slice(row, 1)
        else:
            yield item


def _check(outputs: list[list[Item]], expected_items: list[Expected], chosen: Verification) -> None:
    for items, one in zip(outputs, expected_items, strict=True):
        if callable(one):
            one(items)
        else:
            batches = [item for item in items if isinstance(item, pa.RecordBatch)]
            assert_rows(batches, one, ordered=chosen.ordered, tolerance=chosen.tolerance)
