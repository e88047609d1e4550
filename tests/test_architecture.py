"""Does docs/architecture.md describe the package: do its files exist, and does its example run?"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("docs/architecture.md", "CONTRIBUTING.md")}
FOLDERS = ("", "src/fwflow", "docs")


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
            body = re.search(rf"^class {owner}\b.*?(?=^class |\Z)", source, flags=re.M | re.S)
            assert body, name
            assert re.search(rf"^    def {member}\(", body[0], flags=re.M), name


def test_the_example_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGES["docs/architecture.md"], flags=re.M | re.S)
    names = {}
    exec(compile(code, "docs/architecture.md", "exec"), names)
    assert names["r"].nit > 0


def test_the_page_shows_the_picture_of_the_layers():
    (shown,) = re.findall(r':start-after: "## Layers\\n"\n:end-before: "(.*?)"', PAGES["docs/architecture.md"])
    section = PAGES["CONTRIBUTING.md"].split("## Layers\n")[1].split(shown)[0]
    assert section.count("```text") == 1
