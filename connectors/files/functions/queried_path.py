"""The files that a query names: one or more paths, whose absence is an error without advice on
mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.storage import DataFile
from runnel.errors import OperationalError


@dataclass(frozen=True, slots=True)
class QueriedPath(FilePath):
    """The paths in a query. The first one is in the fields of `FilePath`.

    more: further paths; their files follow.
    """

    more: tuple[QueriedPath, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[FilePath]) -> QueriedPath:
        """The same paths."""
        first, *more = [
            cls(path.text, path.glob, path.ignore_missing, written=path.written) for path in paths
        ]
        return replace(first, more=tuple(more))

    def base(self) -> str:
        """For several paths "": values of partitions are then found in the whole paths."""
        return "" if self.more else FilePath.base(self)

    def with_subfolders(self) -> FilePath:
        more = tuple(replace(path, has_subfolders=True) for path in self.more)
        return replace(self, has_subfolders=True, more=more)

    def shown(self, file: DataFile) -> str:
        """The path of a file, by the most specific of the paths that can have found it."""
        matching = [
            path for path in (self, *self.more) if file.path.startswith(FilePath.base(path))
        ]
        if not matching:
            return str(file.path)
        return FilePath.shown(max(matching, key=lambda path: len(FilePath.base(path))), file)

    def is_folder(self) -> bool:
        return not self.more and FilePath.is_folder(self)

    def files(self) -> list[DataFile]:
        found = FilePath.files(self)
        for path in self.more:
            found += path.files()
        return found

    def _nothing(self) -> OperationalError:
        error = FilePath._nothing(self)
        if self.is_pattern or self.is_folder():
            error.hint = "correct the pattern" if self.is_pattern else "correct the path or glob"
        return error
