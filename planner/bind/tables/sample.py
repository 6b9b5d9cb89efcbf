"""TABLESAMPLE and USING SAMPLE: rows that are chosen at random, each by itself.

BERNOULLI and SYSTEM choose each row with the same probability, RESERVOIR a number of rows. With
REPEATABLE, the choice depends on the seed and on the number of the row, not on its values.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal, SortKey
from runnel.planner.bind.tables.percent import first_share, percentage
from runnel.planner.bind.tables.positional import numbered
from runnel.relation.nodes import Filter, Limit, Project, Relation, Sort, references
from runnel.sqltypes import BIGINT, DOUBLE

_STEP = 1_000_003
"""The distance of the seeds of neighbouring rows."""


def sampled(relation: Relation, tree: Any, position: Position | None) -> Relation:
    """The rows of a relation that an exp.TableSample chooses."""
    seed = tree.args.get("seed")
    method = tree.args["method"].name.upper()
    size = tree.args.get("size")
    if relation.never_ends and (seed is not None or method == "RESERVOIR"):
        what = "REPEATABLE" if method != "RESERVOIR" else "a sample with a number of rows"
        raise NotSupportedError(
            f"{what} is not supported for a streaming query",
            detail="the rows of a stream have no numbers, and no end",
            hint="use TABLESAMPLE BERNOULLI (10 PERCENT)",
            position=position,
        )
    share = None
    if size is None:
        amount = build.number(tree.args["percent"].this, position)
        share = percentage(amount, "TABLESAMPLE", position)
    width = len(relation.fields)
    chosen = _with_chance(relation, seed, position)
    chance = references(chosen.fields)[-1]
    if method != "RESERVOIR":
        assert share is not None
        limit = Literal(value=float(share), type=DOUBLE)
        condition = build.call("lt", [chance, limit], position)
        chosen = Filter(input=chosen, condition=condition, position=position)
    elif share is not None:
        chosen = _nearest_share(chosen, chance, share, position)
    else:
        keys = (SortKey(chance, False, True),)
        chosen = Limit(
            input=Sort(input=chosen, keys=keys, position=position),
            count=_count(size, position),
            offset=None,
            position=position,
        )
    return Project(
        input=chosen,
        expressions=references(chosen.fields)[:width],
        names=tuple(field.name for field in relation.fields),
        position=position,
    )


def _with_chance(relation: Relation, seed: Any, position: Position | None) -> Relation:
    """The relation with a number from 0 to below 1 for each row, as its last column."""
    width = len(relation.fields)
    arguments: list[Expression] = []
    if seed is not None:
        relation = numbered(relation, position)
        number = references(relation.fields)[-1]
        spread = build.call("multiply", [number, Literal(value=_STEP, type=BIGINT)], position)
        arguments = [build.call("add", [spread, build.number(seed.this, position)], position)]
    columns = references(relation.fields)[:width]
    return Project(
        input=relation,
        expressions=(*columns, build.call("RANDOM", arguments, position)),
        names=(*(column.name for column in columns), "$chance"),
        position=position,
    )


def _nearest_share(
    relation: Relation, chance: Expression, share: Fraction, position: Position | None
) -> Relation:
    return first_share(relation, (SortKey(chance, False, True),), share, None, position)


def _count(size: Any, position: Position | None) -> Expression:
    count = build.number(size.this, position)
    if not isinstance(count.value, int):
        raise ProgrammingError(
            f"the number of rows of a sample must be a whole number, not {size.this}",
            position=position,
        )
    return Literal(value=count.value, type=BIGINT, position=position)
