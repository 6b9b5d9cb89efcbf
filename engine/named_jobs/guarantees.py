"""The guarantee of a job with its actual sources and sinks, as EXPLAIN and SHOW JOBS report it."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.dag import DAG
from runnel.processor import Guarantee
from runnel.processors.sinks.write import WriteMetaSupplier
from runnel.processors.sources.scan import ScanMetaSupplier

AT_MOST_ONCE = "atMostOnce"
"""The guarantee for rows that cannot be read again, such as rows of a pushed stream: if the job
fails, the rows since the last snapshot are lost."""


@frozen
class EndpointGuarantee:
    """The guarantee at one source or sink of a job.

    vertex: name of the vertex.
    name: name of the table.
    text: of a sink its guarantee; of a source what a failure means for its rows.
    """

    vertex: str
    name: str
    text: str


def guarantees_of(dag: DAG, guarantee: Guarantee) -> tuple[str, list[EndpointGuarantee]]:
    """The guarantee from end to end, and the guarantee of each source and sink."""
    found = []
    weakest = str(guarantee)
    loses = False
    for vertex in dag.vertices.values():
        supplier = vertex.supplier
        if isinstance(supplier, ScanMetaSupplier):
            traits = supplier.source.traits
            loses = loses or (traits.is_live and not traits.is_repeatable)
            found.append(_of_source(vertex.name, supplier, guarantee))
        elif isinstance(supplier, WriteMetaSupplier):
            guaranteed = weaker(guarantee, supplier.table.guarantee)
            weakest = str(weaker(Guarantee(weakest), guaranteed))
            found.append(EndpointGuarantee(vertex.name, supplier.table.name, str(guaranteed)))
    if loses and guarantee is not Guarantee.NONE:
        weakest = AT_MOST_ONCE if weakest == str(Guarantee.EXACTLY_ONCE) else str(Guarantee.NONE)
    return weakest, found


def _of_source(vertex: str, supplier: ScanMetaSupplier, guarantee: Guarantee) -> EndpointGuarantee:
    traits = supplier.source.traits
    if guarantee is Guarantee.NONE:
        text = "read again after a failure"
    elif traits.is_repeatable:
        text = "continues from its position in the last snapshot"
    elif traits.is_live:
        text = "can't be read again: rows that came since the last snapshot are lost in a failure"
    else:
        text = (
            "has no positions: snapshots begin when it is read to its end, "
            "and a job that fails before reads it again"
        )
    return EndpointGuarantee(vertex, vertex.removeprefix("scan "), text)


_ORDER = (Guarantee.NONE, Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE)


def weaker(one: Guarantee, other: Guarantee) -> Guarantee:
    """The weaker of two guarantees."""
    return min(one, other, key=_ORDER.index)
