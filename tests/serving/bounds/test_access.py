"""Bounds by themselves: which paths and URLs are within them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import fsspec
import pytest

import runnel
from runnel.access import Access, access_of, check_apart, is_name_below, modules_in
from runnel.errors import ErrorCode

ROOTS = ["s3://bucket/shared", "https://host.example/data/", "https://whole.example", "memory://"]


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/shared/a.csv",
        "S3://bucket/shared/more/*.csv",
        "https://host.example/data/x.csv?version=1",
        "HTTPS://HOST.example/data/x.csv",
        "https://whole.example/anything/at/all",
        "memory://a/b",
        "memory:///a/b",
        "s3://bucket/shared/a b.csv",
    ],
)
def test_urls_within_bounds(url: str) -> None:
    access_of(ROOTS).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/share",
        "s3://bucket/shared2/a.csv",
        "s3://other/shared/a.csv",
        "s3://bucket/shared/../secret.csv",
        "s3://bucket/shared/%2e%2e/secret.csv",
        "s3://bucket/shared/%252e%252e/secret.csv",
        "s3://bucket/shared\\..\\secret.csv",
        "http://host.example/data/x.csv",
        "https://host.example:8443/data/x.csv",
        "https://host.example.evil/data/x.csv",
        "https://user@host.example/data/x.csv",
        "https://host.example@evil/data/x.csv",
        "https://evil/https://host.example/data/x.csv",
        "simplecache::s3://bucket/shared/a.csv",
        "memory://a::file:///etc/passwd",
        "https://[bad/data/x.csv",
        "https://host.example/data/\nx",
        "s3://bucket/shared/a\tb.csv",
        "s3://bucket/shared/a\x7fb.csv",
        " s3://bucket/shared/a.csv",
        "s3://bucket/shared/a.csv ",
        "ftp://whole.example/x",
    ],
)
def test_urls_outside_of_bounds(url: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached") as caught:
        access_of(ROOTS).check_url(url)
    assert caught.value.code is ErrorCode.NOT_ALLOWED


@pytest.mark.parametrize(
    "given",
    ["https://user:secret@host/x", "simplecache::s3://x", "https://host/x?a=b", "nowhere", ""],
)
def test_what_cannot_be_bounds(given: str) -> None:
    with pytest.raises(runnel.InterfaceError) as caught:
        access_of([given])
    assert "secret" not in str(caught.value)


def test_urls_of_the_disk_are_roots(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/x.csv").write_text("v\n1\n")
    for scheme in ("file", "LOCAL"):
        bounds = access_of([f"{scheme}://{tmp_path}/a%20b"])
        assert bounds.roots == (str(tmp_path.resolve() / "a b"),)
        assert bounds.urls == ()
    with runnel.connect(allowed_paths=[f"file://{tmp_path}/a%20b"]) as connection:
        for path in (f"{tmp_path}/a b/x.csv", f"file://{tmp_path}/a b/x.csv"):
            assert connection.execute(f"SELECT v FROM TABLE(CSV_FILE('{path}'))").fetchall() == [
                (1,)
            ]


@pytest.mark.parametrize(
    "given", ["file://data/x", "file://", "local://host", "file:///nowhere/at/all", "file:///%00"]
)
def test_urls_of_the_disk_that_cannot_be_roots(given: str) -> None:
    with pytest.raises(runnel.InterfaceError) as caught:
        access_of([given])
    assert caught.value.hint is not None


def test_objects_of_any_name_in_an_allowed_folder() -> None:
    system = fsspec.filesystem("memory")
    folder = "memory://names-of-objects"
    names = ("a b.csv", "c\nd.csv", "e::f.csv", "g.csv ")
    for number, name in enumerate(names):
        system.pipe(f"/names-of-objects/{name}", b"v\n%d\n" % number)
    try:
        with runnel.connect(allowed_paths=[folder]) as connection:
            assert connection.execute(
                f"SELECT v FROM TABLE(CSV_FILE('{folder}/a b.csv'))"
            ).fetchall() == [(0,)]
            found = connection.execute(
                f"SELECT v FROM TABLE(CSV_FILE('{folder}/*.csv*')) ORDER BY v"
            ).fetchall()
    finally:
        system.rm("/names-of-objects", recursive=True)
    assert found == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("inner", ["/d/../x", "/d/%2e%2e/x", "/d/..\\x", "/dx", "/x", "/d"])
def test_what_a_listing_may_name_outside_of_its_folder(inner: str) -> None:
    assert not is_name_below(inner, "/d")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_what_is_no_path_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match="can't be a path"):
        access_of([tmp_path]).resolve(f"{tmp_path}/{path}")
    with runnel.connect(allowed_paths=[tmp_path]) as connection:
        for statement in (
            "SET temp_directory = '{}'",
            "SELECT * FROM TABLE(CSV_FILE('{}'))",
            "CREATE MAPPING f (a BIGINT) TYPE File OPTIONS ('format' = 'csv', 'path' = '{}')",
            "CREATE MAPPING f (a BIGINT) TYPE DuckDB OPTIONS ('path' = '{}', 'create' = 'true')",
        ):
            with pytest.raises(runnel.ProgrammingError):
                connection.execute(statement.format(f"{tmp_path}/{path}"))


def test_a_link_that_is_put_in_place_after_the_look_is_not_opened(tmp_path: Path) -> None:
    """The race, with the swap at the worst instant: between the look and the opening."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "a", outside / "a"):
        folder.mkdir(parents=True)
        (folder / "x.txt").write_text(folder.parent.name)

    class Swapping(Access):
        def resolve(self, path: str) -> str:
            real = Access.resolve(self, path)
            swap()
            return real

    def file() -> None:
        (root / "a/x.txt").unlink()
        (root / "a/x.txt").symlink_to(outside / "a/x.txt")

    def folder() -> None:
        (root / "a").rename(root / "b")
        (root / "a").symlink_to(outside / "a")

    access = Swapping(access_of([root]).roots)
    swap = folder
    with pytest.raises(runnel.ProgrammingError, match="outside"):
        access.open(str(root / "a/x.txt"), os.O_RDONLY)
    (root / "a").unlink()
    (root / "b").rename(root / "a")
    swap = file
    with pytest.raises(OSError, match=r"symbolic links|symlink"):
        access.open(str(root / "a/x.txt"), os.O_RDONLY)


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ended = threading.Event()

    def read() -> None:
        with pytest.raises(runnel.ProgrammingError, match="no regular file"):
            access_of([tmp_path]).open(str(tmp_path / "pipe"), os.O_RDONLY)
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    assert ended.wait(10)


def test_modules_lie_apart_from_files(tmp_path: Path) -> None:
    (tmp_path / "data/modules").mkdir(parents=True)
    bounds = access_of([tmp_path / "data"])
    for folder in (tmp_path, tmp_path / "data", tmp_path / "data/modules"):
        with pytest.raises(runnel.InterfaceError, match="in a folder that clients may write"):
            check_apart(bounds, folder, "the folder of modules")
    check_apart(bounds, tmp_path / "else", "the folder of modules")
    with pytest.raises(runnel.InterfaceError, match="can't be read"):
        modules_in(tmp_path / "nowhere")
