"""What a job can hold of its guarantee, with the sources and the sinks that it has: told in EXPLAIN
and SHOW JOBS."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.dag import DAG
from runnel.processor import Guarantee
from runnel.processors.sinks.write import WriteMetaSupplier
from runnel.processors.sources.scan import ScanMetaSupplier

AT_MOST_ONCE = "atMostOnce"
"""Of rows that are gone when they were read, such as those of a pushed stream: those since the last
snapshot are lost when the job fails."""


@frozen
class Promise:
    """What holds at one end of a job; `text` says what becomes of a row after a failure."""

    vertex: str
    name: str
    text: str


def promises_of(dag: DAG, guarantee: Guarantee) -> tuple[str, list[Promise]]:
    """What holds from end to end, and at each source and sink."""
    found = []
    weakest = str(guarantee)
    loses = False
    for vertex in dag.vertices.values():
        supplier = vertex.supplier
        if isinstance(supplier, ScanMetaSupplier):
            loses = loses or (supplier.source.is_live and not supplier.source.is_repeatable)
            found.append(_of_source(vertex.name, supplier, guarantee))
        elif isinstance(supplier, WriteMetaSupplier):
            held = weaker(guarantee, supplier.table.guarantee)
            weakest = str(weaker(Guarantee(weakest), held))
            found.append(Promise(vertex.name, supplier.table.name, str(held)))
    if loses and guarantee is not Guarantee.NONE:
        weakest = AT_MOST_ONCE if weakest == str(Guarantee.EXACTLY_ONCE) else str(Guarantee.NONE)
    return weakest, found


def _of_source(vertex: str, supplier: ScanMetaSupplier, guarantee: Guarantee) -> Promise:
    source = supplier.source
    if guarantee is Guarantee.NONE:
        text = "read anew after a failure"
    elif source.is_repeatable:
        text = "read on from its position in the last snapshot"
    elif source.is_live:
        text = "can't be read again: rows that came since the last snapshot are lost in a failure"
    else:
        text = (
            "has no positions: snapshots begin when it is read to its end, "
            "and a failure before begins anew"
        )
    return Promise(vertex, vertex.removeprefix("scan "), text)


_ORDER = (Guarantee.NONE, Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE)


def weaker(one: Guarantee, other: Guarantee) -> Guarantee:
    """The one that promises less."""
    return min(one, other, key=_ORDER.index)
