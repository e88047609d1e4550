"""Is what the documentation says of "auto" what it does?"""

import inspect
import re
import textwrap
from pathlib import Path

import numpy as np

import fwflow as fw
from fwflow.methods.auto import RULES
from fwflow.methods.catalogue import VARIANTS

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


def quoted(name):
    return f'"{name}"'


def test_the_table_in_the_docs_is_that_of_the_rules():
    written = re.search(r"<!-- auto: begin -->\n(.*?)\n<!-- auto: end -->", DOCS.read_text("utf-8"), re.DOTALL)
    header = ["| objective | set | methods, in order | reason |", "|---|---|---|---|"]
    rows = [
        f"| {r.objective} | {r.constraint} | {', '.join(f'`{quoted(name)}`' for name in r.candidates)} | {r.why} |"
        for r in RULES
    ]
    table = "\n".join(header + rows)
    assert written[1] == table, f"write this between the marks in docs/methods.md:\n{table}"


def test_the_docstring_has_the_rules():
    """The text is written into the source, since Python's -OO leaves no docstring to complete."""
    wrapped = {"width": 116, "initial_indent": "    * ", "subsequent_indent": "      "}
    rules = "\n".join(
        textwrap.fill(
            f"Objective: {rule.objective}. Set: {rule.constraint}. Methods: {', '.join(map(quoted, rule.candidates))}.",
            **wrapped,
        )
        for rule in RULES
    )
    written = inspect.getdoc(fw.minimize)
    assert f"\n\n{rules}\nschedule : " in written, f"write this above `schedule` in minimize's docstring:\n{rules}"


def test_a_result_says_what_ran_and_why():
    f = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0])
    chosen = fw.minimize(f, fw.L1Ball(1.0))
    assert chosen.method == "working-set"
    assert chosen.method.why in {rule.why for rule in RULES}
    asked = fw.minimize(f, fw.L1Ball(1.0), method="rk44", tol=1e-2)
    assert (asked.method, asked.method.why) == ("rk44", "the caller chose it")


def test_the_page_names_every_method():
    text = DOCS.read_text("utf-8")
    assert [name for name in VARIANTS if f'`"{name}"`' not in text] == []


def test_the_docstring_names_every_method():
    assert all(f'"{name}"' in fw.minimize.__doc__ or name.startswith("lazy-") for name in VARIANTS)
