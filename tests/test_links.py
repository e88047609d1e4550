"""The checker of links finds links to missing files and to missing anchors, and nothing else."""

import runpy
from pathlib import Path

CHECKER = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "check_links.py"))


def test_links_of_a_site(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<h1 id="top"></h1><a href="#top"></a><a href="other.html#here"></a><a href="https://example.org/#x"></a>'
        '<a href="#gone"></a><a href="other.html#gone"></a><a href="missing.html"></a><img src="missing.png">'
    )
    (tmp_path / "other.html").write_text('<p id="here"></p>')
    expected = ["#gone", "other.html#gone", "missing.html", "missing.png"]
    assert CHECKER["broken"](tmp_path) == [f"page.html: {link}" for link in expected]


def test_links_of_a_markdown_file(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("[itself](page.md#x) [site](https://example.org) [here](#x) [gone](gone.md)")
    assert CHECKER["broken_in_markdown"](path) == [f"{path}: gone.md"]
