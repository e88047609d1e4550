"""The code of CONTRIBUTING.md, section by section, as users would paste it."""

import re
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def blocks(text, kind):
    """Return the fenced blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


_TEXTS = {
    section.partition("\n")[0]: section
    for section in re.split(r"^## ", CONTRIBUTING.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
}
#: title -> the python blocks of that section, one after the other.
SECTIONS = {title: "\n".join(found) for title, text in _TEXTS.items() if (found := blocks(text, "python"))}
#: title -> the text blocks that directly follow python blocks: their output.
OUTPUTS = {
    title: "".join(found)
    for title in SECTIONS
    if (found := re.findall(r"^```\n\n```text\n(.*?)^```", _TEXTS[title], flags=re.MULTILINE | re.DOTALL))
}


def files(title):
    """Return the TOML files of a section by name, which is the comment in the first line of a block."""
    found = [re.match(r"# (\S+)\n", block) for block in blocks(_TEXTS[title], "toml")]
    return {match[1]: match.string for match in found}


@cache
def executed(title):
    """Run the code of a section in a folder with its files. Return the names that it defines, and its output."""
    names = {"__name__": f"handbook.{title}"}
    output = StringIO()
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(output):
        for name, content in files(title).items():
            Path(name).write_text(content, encoding="utf-8")
        exec(compile(SECTIONS[title], f"{CONTRIBUTING.name}: {title}", "exec"), names)
    return names, output.getvalue()


def section(title):
    """Return the names that the code of a section defines."""
    return executed(title)[0]
