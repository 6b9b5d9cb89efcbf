"""The listings of a followed path: which files it has, which partition reads each, and which files
have a newer one after them.

Several threads read the partitions of one execution. One of them lists the path when that is due;
each partition then handles its own files. A file stays in its partition until that has released it,
so that the snapshots of two partitions never both lack a file, whatever the order of their
barriers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import zip_longest
from threading import Lock
from typing import NamedTuple, Protocol

from runnel.connectors.files.follow.birth import birth_of
from runnel.connectors.files.follow.file import FollowedFile, Mark, mark_of, number_of
from runnel.connectors.files.format import files_now
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.storage import DataFile, RemotePath, local
from runnel.processor import JobContext

LOOKING_SHARE = 10
"""The share of the time for listing is at most about 1 / LOOKING_SHARE, however many files there
are."""

MILLISECOND = 1_000_000

PATIENCE = 10_000 * MILLISECOND
"""For how many nanoseconds, at least, the partitions with rows wait for one that has new files too.

The rows of a partition that is not waited for may be late, so this is longer than a busy machine
keeps a thread from running. Only a partition that is blocked by its consumers needs longer; it is
not waited for again until it has handled a listing."""

RETRY = 5 * MILLISECOND
"""After how many nanoseconds a partition looks again while another one lists the path."""

_ROTATED = re.compile(r"(?P<stem>.+)[._-][0-9]+(?P<extension>(\.[A-Za-z][A-Za-z0-9]*)*)")
"""The name of the previous file after log rotation: app.log.1, app.1.log."""

Progress = tuple[int, int]
"""How far a file was read; see `file.progress`."""


class PathPartition(Protocol):
    """A partition as the listings know it; see `FollowPartition`."""

    number: int

    def woken(self) -> None:
        """Have it read soon. Called from any thread."""

    def adopt(self, path: str, file: FollowedFile) -> None:
        """Add a file at its position. Called under the lock of the listings."""

    def drop(self, path: str) -> None:
        """Forget a file that another partition has read further. Called before the first read,
        under the lock of the listings."""


class ListedFile:
    """A file of the path. All fields but `is_finished` change only when the path is listed.

    partition: the number of the partition that reads it.
    mark: its last mark; None: it was not listed yet.
    inode: its inode number, if known.
    size: its size in bytes when the snapshot was taken from which this execution starts; -1: it is
        not in that snapshot.
    first, changed: the numbers of the listings in which it was first, and in which it was last
        changed; 0: before the first listing of this execution.
    born: when it was created, in nanoseconds; None: unknown.
    is_finished: its partition has read it to its end, and expects no more rows of it.
    """

    __slots__ = ("born", "changed", "first", "inode", "is_finished", "mark", "partition", "size")

    def __init__(self, partition: int, first: int, inode: int | None, size: int = -1) -> None:
        self.partition = partition
        self.first = self.changed = first
        self.inode = inode
        self.size = size
        self.mark: Mark | None = None
        self.born: int | None = None
        self.is_finished = False


class FoundFile(NamedTuple):
    """A file in one listing.

    file: the file.
    mark: its mark.
    limit: its size in bytes when the listing began: it is read up to there. Rows after that may be
        later than rows of a file that this listing does not have.
    listed: what all listings share about it.
    """

    file: DataFile
    mark: Mark
    limit: int
    listed: ListedFile


class Listing:
    """One listing of the path. Immutable.

    number: counts the listings of an execution from 1.
    files: the files of each partition, by path and sorted by name.
    superseded: the unchanged files that have a newer one after them.
    """

    __slots__ = ("files", "number", "superseded")

    def __init__(self, number: int) -> None:
        self.number = number
        self.files: dict[int, dict[str, FoundFile]] = {}
        self.superseded: set[str] = set()


class FollowedPath:
    """The listings of one execution, and what its partitions share. Thread-safe.

    path: the followed path.
    context: the job.
    interval: nanoseconds between two listings.
    regular: number of the partitions that may receive new files.
    """

    def __init__(self, path: FilePath, context: JobContext, interval: int, regular: int) -> None:
        self.context = context
        self.regular = regular
        self.listing: Listing | None = None
        self.next_look: int | None = None
        self._path = path
        self._clock: Callable[[], int] = context.clock
        self._interval = interval
        self._partitions: dict[int, PathPartition] = {}
        self._begun: set[int] = set()
        self._closed: set[int] = set()
        self._files: dict[str, ListedFile] = {}
        self._claims: dict[str, tuple[PathPartition, Progress]] = {}
        self._lock = Lock()
        self._listing_lock = Lock()
        self._awaited: dict[int, int] = {}  # until when each partition is waited for
        self._blocked: set[int] = set()
        self._waiting: set[int] = set()

    @property
    def is_divided(self) -> bool:
        """Whether there is more than one partition."""
        return len(self._partitions) > 1

    def add(self, partition: PathPartition) -> None:
        with self._lock:
            self._partitions[partition.number] = partition

    def next_number(self) -> int:
        """The number of a further partition, which receives no new files."""
        with self._lock:
            return max(self.regular, *(number + 1 for number in self._partitions))

    def claim(
        self,
        partition: PathPartition,
        file: FollowedFile,
        path: str,
        state: Progress,
        found: tuple[int, int | None, bool],
    ) -> bool:
        """A partition resumes a file at a position, and adopts it. False: another one has read it
        further.

        Two partitions may have a position in one file if it was renamed or replaced around a
        snapshot; they may claim it at the same time. `found` is the file's size in the snapshot,
        its inode number now, and whether it was finished in the snapshot.
        """
        with self._lock:
            other = self._claims.get(path)
            if other is not None and other[0] is not partition:
                if other[1] >= state:
                    return False
                other[0].drop(path)
            partition.adopt(path, file)
            self._claims[path] = (partition, state)
            item = ListedFile(partition.number, 0, found[1], found[0])
            item.is_finished = found[2]
            self._files[path] = item
            return True

    def release(self, partition: PathPartition, path: str) -> None:
        """Its partition has forgotten a file: if it is listed, it is a new one."""
        with self._lock:
            item = self._files.get(path)
            if item is not None and item.partition == partition.number:
                del self._files[path]

    def begin(self, partition: PathPartition) -> None:
        """A partition is at its first position: it is read from now on."""
        with self._lock:
            if partition.number in self._begun:
                return
            self._begun.add(partition.number)
            if not self._is_ready:
                return
        for other in list(self._partitions.values()):
            if other is not partition:
                other.woken()

    def close(self, partition: PathPartition) -> None:
        """A partition receives no more files."""
        with self._lock:
            self._closed.add(partition.number)
        self.arrived(partition)
        self.begin(partition)

    @property
    def _is_ready(self) -> bool:
        """Whether all files with positions are known, so that the rest are new."""
        return len(self._begun) == len(self._partitions)

    def refresh(self, now: int) -> int:
        """Lists the path if that is due; returns when to call this again."""
        if not self._is_ready:
            return now + RETRY
        if self.next_look is not None and now < self.next_look:
            return self.next_look
        if not self._listing_lock.acquire(blocking=False):
            return now + RETRY
        try:
            # Another thread may have listed the path before it released the lock.
            if self.next_look is None or now >= self.next_look:
                self._list(now)
                took = self._clock() - now
                self.next_look = now + max(self._interval, LOOKING_SHARE * took)
            return self.next_look
        finally:
            self._listing_lock.release()

    def arrived(self, partition: PathPartition) -> None:
        """A partition has handled the last listing, and its rows are awaited no longer."""
        if not self._awaited and not self._blocked:
            return
        with self._lock:
            self._awaited.pop(partition.number, None)
            self._blocked.discard(partition.number)
            if self._awaited:
                return
            woken, self._waiting = self._waiting, set()
        for number in woken:
            self._partitions[number].woken()

    def awaits_others(self, partition: PathPartition, now: int) -> int | None:
        """When to read rows, if partitions that have new ones too don't hold back the watermark
        yet; None: now.

        Otherwise these rows could advance the watermark beyond rows that exist already. As a
        partition may be blocked by its consumers, the wait is limited.
        """
        self.arrived(partition)
        if not self._awaited:
            return None
        with self._lock:
            until = max(self._awaited.values(), default=now)
            if until <= now:
                return None
            self._waiting.add(partition.number)
            return until

    def _list(self, now: int) -> None:
        there = self._marked()
        sizes = {number_of(mark) or path: mark[0] for path, (_, mark) in there.items()}
        if self.is_divided and self._has_changed(there):
            there = self._marked()
        files = list(self._files.items())
        if any(item.mark is not None and path not in there for path, item in files):
            # A file that is renamed meanwhile may be found under neither name.
            there = self._marked()
        born = self._births(there) if self.is_divided else {}
        with self._lock:
            listing = Listing(1 if self.listing is None else self.listing.number + 1)
            changed = self._updated(there, born, listing.number)
            self._add_new(there, born, listing.number)
            for path, (file, mark) in there.items():
                known = self._files[path]
                found = FoundFile(file, mark, sizes.get(number_of(mark) or path, 0), known)
                listing.files.setdefault(known.partition, {})[path] = found
            if self.is_divided:
                listing.superseded = _superseded(self._files, there, listing.number)
                new = {
                    item.partition
                    for item in self._files.values()
                    if not item.is_finished and item.changed >= listing.number - 1
                }
                self._await(changed | new, now)
            # Last: a partition reads it without the lock, and must find the awaited ones too.
            self.listing = listing
            news = changed | self._awaited.keys() if self.is_divided else ()
            woken = [self._partitions[number] for number in sorted(news)]
        for partition in woken:
            partition.woken()

    def _await(self, partitions: set[int], now: int) -> None:
        """Partitions with rows wait for these, except for those that did not handle a listing in
        time."""
        self._blocked |= {number for number, until in self._awaited.items() if until <= now}
        until = now + max(self._interval, PATIENCE)
        for number in self._awaited.keys() | partitions:
            if number in self._closed or number in self._blocked:
                self._awaited.pop(number, None)
            else:
                self._awaited.setdefault(number, until)

    def _has_changed(self, there: Mapping[str, tuple[DataFile, Mark]]) -> bool:
        """Whether there are new rows, so that the path is listed again after its sizes were read.

        Programs with one clock write rows in the order of time, whichever files they are in. So a
        row within the sizes that were read is later only than rows that exist when the second
        listing begins, and it has their files.

        Example: a.csv has 10 bytes when its size is read. Then row 7 is written to b.csv, which is
        new, and row 8 to a.csv. The second listing finds b.csv, and a.csv with 20 bytes. Row 8 is
        not read by this listing, and b.csv holds back the watermark when the next one reads it.
        Also, a system may list a file that is created meanwhile and not one that was created before
        it. The second listing has each file that existed when the first one ended.
        """
        files = self._files
        return there.keys() != files.keys() or any(
            files[path].mark != mark for path, (_, mark) in there.items()
        )

    def _marked(self) -> dict[str, tuple[DataFile, Mark]]:
        """The files that exist, sorted by name, with their marks."""
        found = {}
        for file in files_now(self._path):
            mark = mark_of(file)
            if mark is not None:
                found[file.path] = (file, mark)
        return found

    def _births(self, there: Mapping[str, tuple[DataFile, Mark]]) -> dict[str, int | None]:
        """When the files were created that are new or have changed.

        A file that has changed may be another one, with the name and the inode number of a deleted
        one.
        """
        found = {}
        for path, (file, mark) in there.items():
            known = self._files.get(path)
            has_changed = known is None or known.mark != mark
            if has_changed and not isinstance(path, RemotePath):
                birth = birth_of(local(path))
                # Another file may have got the name meanwhile.
                is_it = number_of(mark_of(file)) == number_of(mark)
                found[path] = birth if is_it else None
        return found

    def _updated(
        self,
        there: Mapping[str, tuple[DataFile, Mark]],
        born: Mapping[str, int | None],
        number: int,
    ) -> set[int]:
        """Updates the known files; returns the partitions of those that were changed, renamed or
        deleted."""
        changed = self._follow_names(there, born)
        for path, item in self._files.items():
            mark = there[path][1] if path in there else None
            if mark is not None and mark == item.mark:
                continue
            changed.add(item.partition)
            if mark is None or item.mark is not None or item.size != mark[0]:
                item.changed = number
                item.is_finished = item.is_finished and mark is None
            item.mark, item.inode = mark, number_of(mark)
        return changed

    def _follow_names(
        self, there: Mapping[str, tuple[DataFile, Mark]], born: Mapping[str, int | None]
    ) -> set[int]:
        """Moves known files to their new names; returns their partitions, which find out whether
        they are the same files.

        A new file may have the inode number of a deleted one, but it was created later. If it moved
        into the partition of that one, the partition might have two files that grow at once.

        Example: a.csv (inode 7) and a.1.csv (inode 5) are known. There are a.csv (inode 9), a.1.csv
        (7) and a.2.csv (5): the entry of a.1.csv moves to a.2.csv, the entry of a.csv to a.1.csv,
        and a.csv is a new file.
        """
        files = self._files
        by_inode = {item.inode: path for path, item in files.items() if item.inode is not None}
        renamed = {}
        for path, (_, mark) in there.items():
            inode, known = number_of(mark), files.get(path)
            was = None if inode is None else by_inode.get(inode)
            if was is None or was == path or (known is not None and known.inode == inode):
                continue
            before, birth = files[was].born, born.get(path)
            if before is not None and birth is not None and birth > before:
                continue
            now = there.get(was)
            if now is None or number_of(now[1]) != inode:
                renamed[path] = was
        moved = {path: files.pop(was) for path, was in renamed.items()}
        # The entry of a file over which another one was renamed is dropped.
        affected = {files[path].partition for path in moved if path in files}
        files.update(moved)
        return affected | {item.partition for item in moved.values()}

    def _add_new(
        self,
        there: Mapping[str, tuple[DataFile, Mark]],
        born: Mapping[str, int | None],
        number: int,
    ) -> None:
        """Assigns new files to the partitions with the fewest files that are not finished."""
        for path, birth in born.items():
            if path in self._files:
                self._files[path].born = birth
        new = [path for path in there if path not in self._files]
        if not new:
            return
        loads = {partition: 0 for partition in range(self.regular) if partition not in self._closed}
        for item in self._files.values():
            if item.partition in loads and not item.is_finished:
                loads[item.partition] += 1
        for path in new:
            chosen = min(loads, key=lambda partition: (loads[partition], partition), default=0)
            loads[chosen] = loads.get(chosen, 0) + 1
            mark = there[path][1]
            item = self._files[path] = ListedFile(chosen, number, number_of(mark))
            item.mark, item.born = mark, born.get(path)


def _superseded(
    files: Mapping[str, ListedFile], there: Mapping[str, object], number: int
) -> set[str]:
    """The files that were not changed since the last listing, and have a newer file after them: the
    next one of their folder by name, or the one from whose name theirs is derived."""
    paths = list(there)
    found = set()
    for path, after in zip_longest(paths, paths[1:]):
        item = files[path]
        if item.is_finished or item.changed >= number:
            continue
        folder, _, name = path.rpartition("/")
        candidates = [after] if after is not None and after.rpartition("/")[0] == folder else []
        rotated = _ROTATED.fullmatch(name)
        if rotated is not None:
            current = rotated["stem"] + rotated["extension"]
            candidates.append(f"{folder}/{current}" if folder else current)
        if any(_is_newer(files[other], item) for other in candidates if other in there):
            found.add(path)
    return found


def _is_newer(file: ListedFile, before: ListedFile) -> bool:
    """Whether a file was created after the last change of `before`.

    Example, of two files that one program writes in turn: a.csv is created at 1 and
    last changed at 5, b.csv is created at 5 and changed at 9. b.csv is newer than a.csv. Of two
    programs that write at the same time: a.csv is created at 1 and changed at 9, b.csv is created
    at 2. It is not newer.
    """
    if file.first > before.changed:
        return True
    last = None if before.mark is None or len(before.mark) < 3 else before.mark[2]
    if file.born is None or last is None:
        return file.first > before.first and file.first >= before.changed
    is_older = before.born is not None and before.born < last
    return file.born > last or (file.born == last and is_older)
