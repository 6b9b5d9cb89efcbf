"""The options of VERIFY JOB: the share of the rows that is compared, and the columns by which it is
chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from runnel.base.frozen import frozen
from runnel.catalog import TableColumn
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.planner.parse.syntax import OptionValue
from runnel.planner.verify.sample import sample_columns
from runnel.relation.nodes import Relation
from runnel.sqltypes import Kind

_INEXACT = (Kind.REAL, Kind.DOUBLE, Kind.JSON)


@frozen(kw_only=True)
class Sample:
    """A share of the rows, chosen by the hash of column values.

    share: above 0, at most 1.
    names: names of the columns; None: columns by which rows can be left out early.
    position: of the option in the statement.
    """

    share: float
    names: tuple[str, ...] | None = None
    position: Position | None = None

    def columns(
        self, written: Sequence[TableColumn], keys: Sequence[int], rows: Relation
    ) -> tuple[int, ...]:
        """The indexes of its columns in the written columns. With `keys`, only key columns are
        used, because other values of a key may be replaced."""
        usable = [
            index
            for index, column in enumerate(written)
            if not column.type.is_nested
            and column.type.kind not in _INEXACT
            and (not keys or index in keys)
        ]
        if not usable:
            raise NotSupportedError(
                "no column can tell which rows are in a sample",
                detail=(
                    "columns of floating-point numbers, arrays, maps, rows and JSON can't, "
                    "nor columns outside of the key"
                ),
                hint="VERIFY the job without a sample",
                position=self.position,
            )
        if self.names is None:
            return sample_columns(rows, usable)
        indexes = {written[index].name.lower(): index for index in usable}
        for name in self.names:
            if name.lower() not in indexes:
                known = [written[index].name for index in usable]
                raise ProgrammingError(
                    f'a sample can\'t be taken by column "{name}"',
                    hint=suggest(name, known, f"it can by {', '.join(known)}"),
                    position=self.position,
                )
        return tuple(sorted({indexes[name.lower()] for name in self.names}))


def _share(text: str) -> float:
    number = text.strip()
    value = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    if not 0 < value <= 1:
        raise ValueError(text)
    return value


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise ValueError(text)
    return names


_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "sample": (_share, "a number above 0 and at most 1, such as '0.01', or '1 %'"),
    "sampleBy": (_names, "names of columns that are written, with commas between them"),
}


def read_sample(options: Iterable[OptionValue]) -> Sample | None:
    """The sample that the options describe; None: all rows. ProgrammingError for a wrong option."""
    known = {name.lower(): name for name in _OPTIONS}
    found: dict[str, Any] = {}
    where: Position | None = None
    for written, text, position in options:
        name = known.get(written.lower())
        if name is None:
            hint = suggest(written, list(_OPTIONS), "its options are 'sample' and 'sampleBy'")
            raise ProgrammingError(
                f"VERIFY JOB has no option '{written}'", hint=hint, position=position
            )
        read, allowed = _OPTIONS[name]
        with suppress(ValueError):
            found[name] = read(text)
        if name not in found:
            raise ProgrammingError(
                f"option '{name}' can't be '{text}'",
                hint=f"it accepts {allowed}",
                position=position,
            )
        where = position
    if "sampleBy" in found and "sample" not in found:
        raise ProgrammingError(
            "option 'sampleBy' goes with 'sample'", hint="add 'sample' = '0.01'", position=where
        )
    share = found.get("sample", 1.0)
    return None if share == 1 else Sample(share=share, names=found.get("sampleBy"), position=where)
