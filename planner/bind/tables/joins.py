"""Binding of joins in FROM: ON, USING and NATURAL, AS OF, LATERAL, and joins with UNNEST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal, transform
from runnel.planner.bind.convert import exact_cast
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import BoundRelation, Scope, ScopeColumn
from runnel.planner.bind.tables.positional import by_position
from runnel.planner.parse.query.allow_list import function_call
from runnel.relation.nodes import LEFT_ONLY, Join, JoinKind, Project, Relation, references
from runnel.relation.subqueries import DependentJoin, deepened, outer_columns
from runnel.sqltypes import BOOLEAN, common_type, loses_digits

if TYPE_CHECKING:
    from runnel.planner.bind.binders import FromItems

_HALVES = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI}
_SIDES = {"": JoinKind.INNER, "LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}


@frozen
class LateralBound(BoundRelation):
    """A relation that reads columns of the items before it in FROM."""


def bind_joins(items: FromItems, bound: BoundRelation, joins: Sequence[Any]) -> BoundRelation:
    """The relation and the scope of `bound` with the items of sqlglot joins.

    JOIN binds closer than a comma: `a, b RIGHT JOIN c` is `a CROSS JOIN (b RIGHT JOIN c)`. Where
    the order makes no difference the joins are left-deep, so that ON may read the items before the
    comma, as in DuckDB.
    """
    start = 0
    for end in range(1, len(joins) + 1):
        if end < len(joins) and not _is_comma(joins[end]):
            continue
        group, start = joins[start:end], end
        if _is_comma(group[0]) and any(map(_depends_on_order, group)):
            bound = bind_join(items, bound, group[0], group[1:])
        else:
            for join in group:
                bound = bind_join(items, bound, join)
    return bound


def _is_comma(join: Any) -> bool:
    return not any(value for key, value in join.args.items() if key not in ("this", "expressions"))


def _depends_on_order(join: Any) -> bool:
    """Whether `a, b JOIN c` differs from `(a CROSS JOIN b) JOIN c` in rows or names."""
    side, method = ((join.args.get(key) or "").upper() for key in ("side", "method"))
    is_by_name = bool(join.args.get("using")) or method in ("NATURAL", "POSITIONAL")
    return side in ("RIGHT", "FULL") or is_by_name


def bind_join(
    items: FromItems, left: BoundRelation, join: Any, following: Sequence[Any] = ()
) -> BoundRelation:
    """The relation and the scope of `left` joined with the item of a sqlglot join.

    `following`: joins that belong to the item, as if it was in parentheses with them.
    """
    tree, side = join.this, (join.args.get("side") or "").upper()
    position = items.at(tree)
    is_set = items.binder.may_have_sets and _is_unnest(tree)
    if is_set and not following:
        return _join_unnest(items, left, join, side)
    kind = _HALVES.get(join.args.get("kind") or "", _SIDES[side])
    version = None
    if isinstance(tree, exp.Table) and tree.args.get("version") is not None:
        version, tree = tree, tree.copy()
        tree.set("version", None)
    is_lateral = (
        is_set
        or isinstance(tree, exp.Lateral)
        or (isinstance(tree, exp.Table) and function_call(tree.this) is not None)
    )
    right = _lateral(items, tree, left, kind) if is_lateral else _independent(items, tree, left)
    if version is not None:
        # Loaded on first use: few statements have an as-of join.
        from runnel.planner.bind.streams.as_of import at_arrival, is_current

        if is_current(items.binder, left, right.relation, version.args["version"], position):
            version, right = None, replace(right, relation=at_arrival(right.relation))
    own = [] if isinstance(tree, exp.Subquery) else tree.args.get("joins") or []
    right = _within(items, right, [*own, *following])
    if join.args.get("method") == "POSITIONAL":
        return by_position(left, right, position)
    if version is not None or join.args.get("method") == "ASOF":
        return _join_as_of(items, left, right, join, version)
    if join.args.get("using") or join.args.get("method") == "NATURAL":
        return _join_using(items, left, right, join, kind)
    scope = left.scope.joined_with(right.scope, len(left.relation.fields), position)
    on = join.args.get("on")
    if on is None:
        if side or (join.args.get("kind") or "").upper() == "INNER":
            raise ProgrammingError(
                "this JOIN needs ON or USING", hint="or write CROSS JOIN", position=position
            )
        return BoundRelation(joined(JoinKind.CROSS, left, right, None, position), scope)
    condition = ExpressionBinder(items.binder, scope, "ON").condition(on)
    return BoundRelation(
        joined(kind, left, right, condition, position),
        left.scope if kind in LEFT_ONLY else scope,
    )


def _within(items: FromItems, bound: BoundRelation, joins: Sequence[Any]) -> BoundRelation:
    """An item with the joins that belong to it."""
    found = bind_joins(items, bound, joins)
    if isinstance(bound, LateralBound):
        return LateralBound(found.relation, found.scope)
    return found


def _join_as_of(
    items: FromItems, left: BoundRelation, right: BoundRelation, join: Any, version: Any
) -> BoundRelation:
    # Loaded on first use: few statements have an as-of join.
    from runnel.planner.bind.streams.as_of import as_of, temporal, version_of
    from runnel.planner.bind.streams.versioned_views import versions_of

    position = items.at(join.this)
    kind = _SIDES[(join.args.get("side") or "").upper()]
    width = len(left.relation.fields)
    scope = left.scope.joined_with(right.scope, width, position)
    if join.args.get("using") is not None and version is None:
        names = [item.name for item in join.args["using"]]
        found = [
            (
                left.scope.resolve(name, None, position),
                right.scope.resolve(name, None, position),
            )
            for name in names
        ]
        pairs = [
            (first, transform(second, lambda item: _shifted(item, width)))
            for first, second in found
        ]
        equal = [build.call("eq", [*pair], position) for pair in pairs[:-1]]
        condition = build.call("and", [*equal, build.call("ge", [*pairs[-1]], position)], position)
        return _merged(
            as_of(kind, left.relation, right.relation, condition, position),
            scope,
            names,
            pairs,
            kind,
        )
    on = join.args.get("on")
    if on is None:
        raise ProgrammingError(
            "FOR SYSTEM_TIME AS OF needs ON", hint="write ON a.k = b.k", position=position
        )
    condition = ExpressionBinder(items.binder, scope, "ON").condition(on)
    if version is None:
        return BoundRelation(as_of(kind, left.relation, right.relation, condition, position), scope)
    instant = ExpressionBinder(items.binder, left.scope, "FOR SYSTEM_TIME").bind(
        version_of(version, position)
    )
    versions = versions_of(right.relation)
    return BoundRelation(
        temporal(kind, left.relation, versions or right.relation, instant, condition, position),
        scope,
    )


def _independent(items: FromItems, tree: Any, left: BoundRelation) -> BoundRelation:
    """The relation of an item that can't refer to the columns of the items before it."""
    try:
        return items.item(tree, left)
    except ProgrammingError as error:
        if isinstance(tree, exp.Subquery):
            from runnel.planner.bind.hints import lateral_hint

            error.hint = lateral_hint(error, left.scope) or error.hint
        raise


def _lateral(items: FromItems, tree: Any, left: BoundRelation, kind: JoinKind) -> BoundRelation:
    """The relation of an item that may refer to the columns of the items before it. If it does, the
    result is a `LateralBound`."""
    around = Scope(left.scope.columns, items.outer)
    bound = items.inside(around).item(tree)
    scope = Scope(bound.scope.columns, items.outer)
    used = [column for column in outer_columns(bound.relation) if column.depth == 1]
    if not used:
        return BoundRelation(deepened(bound.relation, -1), scope)
    if kind in LEFT_ONLY:
        raise NotSupportedError(
            f'the right side of a {kind.name} JOIN that refers to column "{used[0].name}" of its '
            "left side is not supported",
            hint="write WHERE EXISTS (SELECT …)",
            position=used[0].position or items.at(tree),
        )
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise ProgrammingError(
            f'the right side of a {kind.name} JOIN can\'t refer to column "{used[0].name}" of '
            "its left side",
            hint="use an INNER or a LEFT JOIN",
            position=used[0].position or items.at(tree),
        )
    return LateralBound(bound.relation, scope)


def _is_unnest(tree: Any) -> bool:
    # Loaded on first use: few statements have UNNEST.
    from runnel.planner.bind.set_returning.unnest import is_unnest

    return is_unnest(tree)


def _join_unnest(items: FromItems, left: BoundRelation, join: Any, side: str) -> BoundRelation:
    from runnel.planner.bind.set_returning.unnest import bind_unnest

    tree, on = join.this, join.args.get("on")
    position = items.at(tree)
    special = join.args.get("kind") or join.args.get("method")
    if special in (*_HALVES, "POSITIONAL"):
        raise NotSupportedError(
            f"{special} JOIN with UNNEST is not supported",
            hint="put UNNEST into a derived table",
            position=position,
        )
    if isinstance(tree, exp.Lateral):
        tree = without_lateral(tree)
        position = items.at(tree)
    if side not in ("", "LEFT"):
        raise NotSupportedError(f"{side} JOIN with UNNEST is not supported", position=position)
    if on is None or (isinstance(on, exp.Boolean) and on.this):
        return bind_unnest(items, left, tree, is_left=side == "LEFT")
    right = _lateral(items, tree, left, _SIDES[side])
    scope = left.scope.joined_with(right.scope, len(left.relation.fields), position)
    condition = ExpressionBinder(items.binder, scope, "ON").condition(on)
    return BoundRelation(joined(_SIDES[side], left, right, condition, position), scope)


def _join_using(
    items: FromItems, left: BoundRelation, right: BoundRelation, join: Any, kind: JoinKind
) -> BoundRelation:
    position = items.at(join.this)
    if join.args.get("using"):
        named = [(item.name, items.at(item)) for item in join.args["using"]]
    else:
        theirs = {c.name.lower() for c in right.scope.columns if not c.hidden}
        named = [
            (c.name, position) for c in left.scope.star(None, position) if c.name.lower() in theirs
        ]
    width = len(left.relation.fields)
    scope = left.scope.joined_with(right.scope, width, position)
    pairs = []
    for name, at in named:
        first = left.scope.resolve(name, None, at)
        second = right.scope.resolve(name, None, at)
        pairs.append((first, transform(second, lambda item: _shifted(item, width))))
    equal = [build.call("eq", [a, b], position) for a, b in pairs]
    condition = (
        build.call("and", equal, position) if len(equal) > 1 else (equal[0] if equal else None)
    )
    if condition is None and kind is JoinKind.INNER:
        relation = joined(JoinKind.CROSS, left, right, None, position)
    else:
        relation = joined(kind, left, right, condition or _true(), position)
    if kind in LEFT_ONLY:
        return BoundRelation(relation, left.scope)
    return _merged(relation, scope, [name for name, _ in named], pairs, kind)


def _merged(
    relation: Relation,
    scope: Scope,
    names: list[str],
    pairs: list[tuple[Expression, Expression]],
    kind: JoinKind,
) -> BoundRelation:
    merged = []
    for name, (first, second) in zip(names, pairs, strict=True):
        shared = common_type(first.type, second.type)
        assert shared is not None
        sides = [first, second]
        if not loses_digits(first.type, second.type):
            sides = [build.cast(side, shared, implicit=True) for side in sides]
        elif kind is JoinKind.FULL:
            sides = [exact_cast(side, shared) for side in sides]
        if kind is JoinKind.FULL:
            merged.append((name, build.coalesce(sides, first.position)))
        else:
            merged.append((name, sides[1] if kind is JoinKind.RIGHT else sides[0]))
    count = len(merged)
    fields = relation.fields
    project = Project(
        input=relation,
        expressions=(*(item for _, item in merged), *references(fields)),
        names=(*(name for name, _ in merged), *(item.name for item in fields)),
    )
    # A merged column has the position of the left side's column, as in DuckDB.
    pending = {
        name.lower(): ScopeColumn(name, item.type, i) for i, (name, item) in enumerate(merged)
    }
    used: set[str] = set(pending)
    columns: list[ScopeColumn] = []
    for column in scope.columns:
        key = column.name.lower()
        if key in pending and not column.qualified_only and not column.hidden:
            columns.append(pending.pop(key))
        only = column.qualified_only or key in used
        columns.append(replace(column, index=column.index + count, qualified_only=only))
    columns = [*pending.values(), *columns]
    return BoundRelation(project, Scope(tuple(columns), scope.outer))


def joined(
    kind: JoinKind,
    left: BoundRelation,
    right: BoundRelation,
    condition: Expression | None,
    position: Position | None,
) -> Relation:
    """The join of two relations; `condition`: over the columns of both."""
    join = DependentJoin if isinstance(right, LateralBound) else Join
    return join(
        kind=kind, left=left.relation, right=right.relation, condition=condition, position=position
    )


def _shifted(item: Expression, by: int) -> Expression:
    return replace(item, index=item.index + by) if isinstance(item, Column) else item


def _true() -> Expression:
    return Literal(value=True, type=BOOLEAN)


def without_lateral(tree: Any) -> Any:
    """The item after LATERAL. It gets the alias of the LATERAL."""
    inner = tree.this.copy()
    if not isinstance(inner, exp.DerivedTable):
        inner = exp.Table(this=inner, ordinality=tree.args.get("ordinality"))
    if tree.args.get("alias") is not None:
        inner.set("alias", tree.args["alias"].copy())
    return inner
