"""The code of CONTRIBUTING.md, section by section, as users would paste it."""

import re
from functools import cache
from pathlib import Path

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
_TEXT = CONTRIBUTING.read_text(encoding="utf-8")

#: title -> the python blocks of that section, one after the other.
SECTIONS = {
    section.partition("\n")[0]: "\n".join(blocks)
    for section in re.split(r"^## ", _TEXT, flags=re.MULTILINE)[1:]
    if (blocks := re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL))
}


@cache
def section(title):
    """The names that the code of a section defines."""
    names = {"__name__": f"handbook.{title}"}
    exec(compile(SECTIONS[title], f"{CONTRIBUTING.name}: {title}", "exec"), names)
    return names
