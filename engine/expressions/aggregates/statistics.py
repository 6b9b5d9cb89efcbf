"""Aggregates of statistics and of bits: CORR, COVAR_…, REGR_…, SKEWNESS, KURTOSIS, PRODUCT, BIT_…,
APPROX_DISTINCT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Numbers, from_numbers
from runnel.expressions.aggregates.function import (
    AggregateFunction,
    Finish,
    anything,
    as_doubles,
    bigint,
    both,
    double,
    integral,
    numeric,
    same,
)
from runnel.expressions.aggregates.hyperloglog import Sketch, estimates
from runnel.expressions.aggregates.moments import Comoments, Folded, HigherMoments
from runnel.expressions.aggregates.states import filled
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall
from runnel.sqltypes import BIGINT, DOUBLE, SqlType, to_arrow

Pairs = Callable[..., tuple[Numbers, Any]]
"""Computes the values, and a mask of the groups that have one, from count, means, Syy, Sxx and Sxy
per group.

The first argument of the SQL function is y, as in PostgreSQL: REGR_SLOPE(y, x).
"""


def _of_pairs(compute: Pairs) -> Finish:
    def finish(
        columns: list[pa.Array], call: AggregateCall, context: EvaluationContext
    ) -> pa.Array:
        counts = filled(columns[0], np.int64)
        with np.errstate(all="ignore"):
            values, some = compute(counts, *(filled(item, np.float64) for item in columns[1:]))
        if call.type == BIGINT:
            return from_numbers(values.astype(np.int64), pa.int64())
        return from_numbers(np.asarray(values, np.float64), pa.float64(), some)

    return finish


def _correlation(n: Any, my: Any, mx: Any, syy: Any, sxx: Any, sxy: Any) -> tuple[Any, Any]:
    # Rounding errors may lead to a value slightly above 1.
    return np.clip(sxy / np.sqrt(sxx * syy), -1.0, 1.0), (n > 0) & (sxx > 0) & (syy > 0)


def _r2(n: Any, my: Any, mx: Any, syy: Any, sxx: Any, sxy: Any) -> tuple[Any, Any]:
    return np.where(syy == 0, 1.0, sxy * sxy / (sxx * syy)), (n > 0) & (sxx > 0)


_PAIRS: dict[str, Pairs] = {
    "corr": _correlation,
    "covar_pop": lambda n, my, mx, syy, sxx, sxy: (sxy / n, n > 0),
    "covar_samp": lambda n, my, mx, syy, sxx, sxy: (sxy / (n - 1), n > 1),
    "regr_slope": lambda n, my, mx, syy, sxx, sxy: (sxy / sxx, (n > 0) & (sxx > 0)),
    "regr_intercept": lambda n, my, mx, syy, sxx, sxy: (my - sxy / sxx * mx, (n > 0) & (sxx > 0)),
    "regr_r2": _r2,
    "regr_avgx": lambda n, my, mx, syy, sxx, sxy: (mx, n > 0),
    "regr_avgy": lambda n, my, mx, syy, sxx, sxy: (my, n > 0),
    "regr_sxx": lambda n, my, mx, syy, sxx, sxy: (sxx, n > 0),
    "regr_syy": lambda n, my, mx, syy, sxx, sxy: (syy, n > 0),
    "regr_sxy": lambda n, my, mx, syy, sxx, sxy: (sxy, n > 0),
    "regr_count": lambda n, my, mx, syy, sxx, sxy: (n, None),
}


def _skewness(n: Any, mean: Any, m2: Any, m3: Any, m4: Any) -> tuple[Any, Any]:
    """The adjusted skewness of a sample: G1 of Joanes and Gill (1998)."""
    return np.sqrt(n * (n - 1.0)) / (n - 2) * (m3 / n) / (m2 / n) ** 1.5, (n > 2) & (m2 > 0)


def _kurtosis(n: Any, mean: Any, m2: Any, m3: Any, m4: Any) -> tuple[Any, Any]:
    """The adjusted excess kurtosis of a sample: G2 of Joanes and Gill."""
    excess = n * m4 / (m2 * m2)
    return (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * excess - 3.0 * (n - 1.0)), (n > 3) & (
        m2 > 0
    )


def _kurtosis_pop(n: Any, mean: Any, m2: Any, m3: Any, m4: Any) -> tuple[Any, Any]:
    return n * m4 / (m2 * m2) - 3.0, (n > 0) & (m2 > 0)


def _folded(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    return columns[0]


def _estimated(
    columns: list[pa.Array], call: AggregateCall, context: EvaluationContext
) -> pa.Array:
    return from_numbers(estimates(columns[0]), pa.int64())


def _folding(operation: str) -> Callable[[SqlType], tuple[Folded, ...]]:
    return lambda kind: (Folded(operation, to_arrow(kind)),)


def _pair(name: str, compute: Pairs) -> AggregateFunction:
    return AggregateFunction(
        name,
        numeric,
        bigint if name == "regr_count" else double,
        lambda _: (Comoments(),),
        _of_pairs(compute),
        DOUBLE,
        2,
        bind=as_doubles,
        evaluated=both,
    )


def _of_powers(name: str, compute: Pairs) -> AggregateFunction:
    return AggregateFunction(
        name,
        numeric,
        double,
        lambda _: (HigherMoments(),),
        _of_pairs(compute),
        DOUBLE,
        bind=as_doubles,
    )


FUNCTIONS = [
    *(_pair(name, compute) for name, compute in _PAIRS.items()),
    _of_powers("skewness", _skewness),
    _of_powers("kurtosis", _kurtosis),
    _of_powers("kurtosis_pop", _kurtosis_pop),
    AggregateFunction(
        "product", numeric, double, _folding("product"), _folded, DOUBLE, bind=as_doubles
    ),
    *(
        AggregateFunction(
            f"bit_{fold}", integral, same, _folding(fold), _folded, ignores_distinct=fold != "xor"
        )
        for fold in ("and", "or", "xor")
    ),
    AggregateFunction(
        "approx_distinct",
        anything,
        bigint,
        lambda _: (Sketch(),),
        _estimated,
        ignores_distinct=True,
        sql_names=("approx_count_distinct",),
    ),
]
