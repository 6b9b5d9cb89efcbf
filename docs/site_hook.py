"""What MkDocs Material would load from other hosts, and links to files outside of docs/.

MkDocs calls the functions by their names (mkdocs.org, "Hooks"). Mermaid is the file in the package
mermaidx, which is installed with the extra `docs`.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from posixpath import join, normpath
from typing import Any

from mkdocs.structure.files import File

MERMAID = "assets/javascripts/mermaid.js"
ELSEWHERE = re.compile(rb"https://unpkg\.com/[\w@./-]+")
"""Scripts that Material loads for old browsers, and for a page that has no Mermaid."""
LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[\w./-]+)(?:#[\w-]+)?\)")
"""A link to another folder: its text and its path."""


def on_config(config: Any) -> Any:
    """Loads Mermaid from the site itself: Material loads it from another host if no script has
    defined it."""
    config.extra_javascript.append(MERMAID)
    return config


def on_files(files_of_site: Any, config: Any) -> Any:
    """Adds the script to the site."""
    script = (files("mermaidx") / "assets" / "mermaid.js").read_bytes()
    files_of_site.append(File.generated(config, MERMAID, content=script))
    return files_of_site


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Shows a link to a file outside of docs/, such as an example, as its text."""

    def text(match: re.Match[str]) -> str:
        target = normpath(join("docs", page.file.src_uri, "..", match[2]))
        return match[0] if target.startswith("docs/") else match[1]

    return LINK.sub(text, markdown)


def on_post_build(config: Any) -> None:
    """Removes the addresses of other hosts that the scripts of Material could load."""
    for script in (Path(config.site_dir) / "assets" / "javascripts").glob("bundle.*.js"):
        script.write_bytes(ELSEWHERE.sub(b"about:blank", script.read_bytes()))
