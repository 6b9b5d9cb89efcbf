"""The documentation site: it builds without warnings, and its pages load nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
ADDRESS = re.compile(r"""(?:["'`]|url\(["']?)(https?://[^"'` )]+)""")
"""An address at the beginning of a text of a script, or in a url(…) of a style sheet."""
NEVER_LOADED = {
    "http://www.w3.org": "a name of XML",
    "https://api.github.com": "for pages with a repo_url",
    "https://${e}": "for pages with a repo_url",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built site. A link without a target and a page that the menu misses are warnings, which
    `--strict` makes errors."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_loads_from_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    loaded = {address for page in pages for address in LOADED.findall(page.read_text("utf-8"))}
    assert loaded == set()


def test_no_script_or_style_sheet_loads_from_another_host(site: Path) -> None:
    texts = [*site.rglob("*.js"), *site.rglob("*.css")]
    assert len(texts) > 5
    found = {address for path in texts for address in ADDRESS.findall(path.read_text("utf-8"))}
    assert {address for address in found if not address.startswith((*NEVER_LOADED,))} == set()
    assert "repo_url" not in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_every_page_is_in_the_menu_or_linked(site: Path) -> None:
    menu = (site / "index.html").read_text("utf-8")
    pages = [path.relative_to(site).as_posix() for path in site.rglob("*.html")]
    assert [page for page in pages if page != "404.html" and f'href="{page}"' not in menu] == []


def test_the_script_of_diagrams_is_in_the_site(site: Path) -> None:
    page = (site / "index.html").read_text("utf-8")
    assert "assets/javascripts/mermaid.js" in page
    assert (site / "assets" / "javascripts" / "mermaid.js").stat().st_size > 1_000_000


def test_the_api_has_signatures(site: Path) -> None:
    text = (site / "api.html").read_text("utf-8")
    for name in ("runnel.connect", "runnel.Cursor.execute", "runnel.Connection.register"):
        assert f'id="{name}"' in text


def test_the_parameters_of_a_function_are_a_list(site: Path) -> None:
    """The docstrings have lines such as `path: directory, …`."""
    text = (site / "api.html").read_text("utf-8")
    for name in ("path", "spark", "allowed_paths", "paramstyle"):
        assert f"<li><code>{name}</code>: " in text
    assert 'class="admonition' not in text
    assert "<details" not in text
