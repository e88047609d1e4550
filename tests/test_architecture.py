"""Does docs/architecture.md describe the package: do its files exist, and does its example run?"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("", "src/fwflow", "docs")


def with_includes(path):
    """Return a page together with the parts of other files that it includes."""

    def part(directive):
        other, start, end = directive.groups()
        text = (path.parent / other).read_text(encoding="utf-8")
        return text.split(start.replace("\\n", "\n"))[1].split(end)[0]

    directive = r'^```\{include\} (\S+)\n:start-after: "(.*?)"\n:end-before: "(.*?)"\n```$'
    return re.sub(directive, part, path.read_text(encoding="utf-8"), flags=re.M)


PAGES = {name: with_includes(ROOT / name) for name in ("docs/architecture.md", "CONTRIBUTING.md")}


def named_files(text):
    """Paths in backquotes: names of folders end with a slash, and names of Python files and pages with a suffix."""
    return re.findall(r"`([\w./]+(?:/|\.py|\.md|\.rst))`", text)


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    found = named_files(PAGES[page])
    assert len(found) >= 15
    missing = [name for name in found if not any((ROOT / folder / name).exists() for folder in FOLDERS)]
    assert not missing


def test_named_members_exist_where_the_page_says():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/fwflow").rglob("*.py"))
    for name in re.findall(r"`(\w+)\.(\w+)`", PAGES["docs/architecture.md"]):
        owner, member = name
        if owner[0].isupper():
            bodies = re.findall(rf"^class {owner}\b.*?(?=^class |\Z)", source, flags=re.M | re.S)
            assert any(re.search(rf"^    def {member}\(", body, flags=re.M) for body in bodies), name


def test_the_example_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGES["docs/architecture.md"], flags=re.M | re.S)
    names = {}
    exec(compile(code, "docs/architecture.md", "exec"), names)
    assert names["result"].nit > 0


def test_the_page_shows_the_picture_of_the_layers():
    section = PAGES["docs/architecture.md"].split("## Layers\n")[1].split("\n## ")[0]
    assert section.count("```text") == 1
    assert section.strip() in PAGES["CONTRIBUTING.md"]
