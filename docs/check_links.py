"""Check links: every link of the built site and of some Markdown files leads to a file and an anchor that exist.

Usage: ``python docs/check_links.py FOLDER [FILE.md ...]``. Links to other sites are not followed.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Anchors and links of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)
            elif value and (name, tag) in (("href", "a"), ("href", "link"), ("src", "img"), ("src", "script")):
                self.links.append(value)


def broken(folder: Path) -> list[str]:
    """Return the links of a site that lead nowhere."""
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]  # the theme has templates there
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in files}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            missing = anchor and target in pages and anchor not in pages[target].anchors
            if not target.exists() or missing:
                found.append(f"{path.relative_to(folder.resolve())}: {link}")
    return found


def broken_in_markdown(path: Path) -> list[str]:
    """Return the relative links of a Markdown file that lead nowhere."""
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", path.read_text(encoding="utf-8"))
    return [f"{path}: {link}" for link in links if not (path.parent / link).exists()]


if __name__ == "__main__":
    problems = broken(Path(sys.argv[1]))
    for name in sys.argv[2:]:
        problems += broken_in_markdown(Path(name))
    sys.exit("\n".join(["broken links:", *problems]) if problems else 0)
