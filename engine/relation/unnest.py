"""UNNEST and GENERATE_SERIES for each input row."""

from __future__ import annotations

from functools import cached_property

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Change, Expression, mapped
from runnel.relation.nodes import Field, Relation, Single, Values
from runnel.sqltypes import BIGINT


@frozen(kw_only=True)
class PerElement(Single):
    """Each input row once per element of a set, with the element in additional columns.

    outer: whether a row whose set is empty is returned once, with NULL as the element.
    ordinality: the name of a further BIGINT column that numbers the elements from 1; None: no
        such column.
    """

    family = "unnest"

    outer: bool = False
    ordinality: str | None = None

    @property
    def elements(self) -> tuple[Field, ...]:
        """The columns of an element."""
        raise TypeError(f"{type(self).__name__} has no elements")

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        last = () if self.ordinality is None else (Field(self.ordinality, BIGINT),)
        return (*self.input.fields, *self.elements, *last)


@frozen(kw_only=True)
class Unnest(PerElement):
    """Each input row once per element of its arrays. NULL is an empty array.

    Several arrays advance in parallel: a row is returned as often as its longest array has
    elements, and the elements of shorter arrays are followed by NULLs.

    arrays: expressions over the columns of the input.
    names: the name of each array's column of elements.
    """

    clause = "UNNEST"

    arrays: tuple[Expression, ...]
    names: tuple[str, ...]

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return self.arrays

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(arrays=mapped(self.arrays, change))

    @property
    def elements(self) -> tuple[Field, ...]:
        types = [item.type.element for item in self.arrays]
        return tuple(
            Field(name, kind)
            for name, kind in zip(self.names, types, strict=True)
            if kind is not None
        )


@frozen(kw_only=True)
class Series(PerElement):
    """Each input row once per value of GENERATE_SERIES.

    arguments: start, stop and step, over the columns of the input.
    name: the name of the value's column.
    """

    arguments: tuple[Expression, ...]
    name: str

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return self.arguments

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(arguments=mapped(self.arguments, change))

    @property
    def elements(self) -> tuple[Field, ...]:
        return (Field(self.name, self.arguments[0].type),)


def elements_of(array: Expression) -> Unnest:
    """The elements of an array that reads no columns: a relation with the column "element"."""
    return Unnest(input=Values(rows=((),), columns=()), arrays=(array,), names=("element",))
