"""Which partitions a restored scan reads, and from where: by their names, however they are dealt
out."""

from __future__ import annotations

import pytest

from runnel.connector import END, End, Source, SourcePartition, SourceTraits, Token
from runnel.errors import OperationalError
from runnel.expressions.context import EvaluationContext
from runnel.processor import JobContext
from runnel.processors.sources.scan_state import SavedPartition, ScanShare, decode, encode, named

CONTEXT = JobContext(1, EvaluationContext(), lambda: 0)


class Part(SourcePartition):
    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.place: Token | None = None
        self.is_new = False
        self.is_closed = False

    def read(self) -> End:
        return END

    def seek(self, token: Token) -> None:
        self.place = token

    def begin_anew(self) -> None:
        self.is_new = True

    def close(self) -> None:
        self.is_closed = True


class Parts(Source):
    traits = SourceTraits(is_repeatable=True)

    def __init__(self, *names: str) -> None:
        self.parts = [Part(name) for name in names]

    def split(self, context: JobContext) -> list[SourcePartition]:
        return list(self.parts)


class Reopening(Parts):
    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        return Part(f"again {identity}")


def restored(
    source: Parts, saved: list[SavedPartition], parallelism: int = 1
) -> list[dict[str, Part]]:
    """What each processor goes on with."""
    items = list(named(source.split(CONTEXT)).items())
    everything = frozenset(name for name, _ in items)
    found = []
    for index in range(parallelism):
        share = ScanShare(source, CONTEXT, dict(items[index::parallelism]), everything)
        parts = {}
        for name, part, _ in share.restored(saved, index, parallelism):
            assert isinstance(part, Part)
            parts[name] = part
        found.append(parts)
    return found


def at(name: str, place: int) -> SavedPartition:
    return SavedPartition(name, f'{{"n": {place}}}', is_begun=True)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_positions_go_to_who_has_the_partition(parallelism: int) -> None:
    source = Parts("c", "a", "d", "b")
    saved = [at(name, place) for place, name in enumerate("abcd")]
    found = restored(source, saved, parallelism)
    assert {part.identity: part.place for part in source.parts} == {
        name: {"n": n} for n, name in enumerate("abcd")
    }
    assert sorted(name for parts in found for name in parts) == list("abcd")


def test_partitions_that_are_new() -> None:
    """Read from their start where a source may grow; else a job reads what it began with."""
    fixed, growing = Parts("a", "b"), Parts("a", "b")
    growing.traits = SourceTraits(is_repeatable=True, may_grow=True)
    assert list(restored(fixed, [at("a", 1)])[0]) == ["a"]
    assert fixed.parts[1].is_closed
    assert list(restored(growing, [at("a", 1)])[0]) == ["a", "b"]
    assert [part.is_new for part in growing.parts] == [False, True]
    assert list(restored(Parts("a", "b"), [])[0]) == ["a", "b"], "the scan is new as a whole"


def test_partitions_that_have_ended_or_are_gone() -> None:
    ended = SavedPartition("a", is_begun=True, is_ended=True)
    source = Parts("a", "b")
    assert list(restored(source, [ended, at("b", 1)])[0]) == ["b"]
    assert source.parts[0].is_closed
    with pytest.raises(OperationalError, match='the source has no partition "z" that a snapshot'):
        restored(Parts("a"), [at("a", 1), at("z", 1)])
    both = restored(Reopening("a"), [at("a", 1), at("y", 2), at("z", 3)], 2)
    assert [sorted(parts) for parts in both] == [["a", "y"], ["z"]]
    assert both[1]["z"].identity == "again z"
    assert both[1]["z"].place == {"n": 3}


def test_what_is_live_goes_on_with_what_comes() -> None:
    stream = Parts("")
    stream.traits = SourceTraits(is_live=True)
    assert list(restored(stream, [SavedPartition("0", None, is_begun=True)])[0]) == ["0"]
    stream.traits = SourceTraits()
    with pytest.raises(
        OperationalError, match="can't be read again from where the snapshot was taken"
    ):
        restored(stream, [SavedPartition("0", None, is_begun=True)])
    assert list(restored(stream, [SavedPartition("0", None)])[0]) == ["0"], "nothing of it was read"


def test_state_is_read_back_also_without_columns_of_later_versions() -> None:
    saved = [at("a", 1), SavedPartition("b", None, True, True, -5, True)]
    assert decode(encode(saved)) == saved
    assert decode(encode(saved).select([0, 1, 2])) == [
        at("a", 1),
        SavedPartition("b", is_begun=True),
    ]


def test_names_of_partitions_differ() -> None:
    assert list(named([Part(""), Part("a"), Part("a"), Part("")])) == ["0", "a", "a#2", "3"]
