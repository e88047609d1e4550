"""Is what the documentation says of "auto" what it does?"""

import re
from pathlib import Path

import numpy as np

import fwflow as fw
from fwflow.methods.auto import RULES, rules_table

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_table_in_the_docs_is_that_of_the_rules():
    written = re.search(r"<!-- auto: begin -->\n(.*?)\n<!-- auto: end -->", DOCS.read_text("utf-8"), re.DOTALL)
    assert written[1] == rules_table()


def test_the_docstring_has_every_rule():
    for rule in RULES:
        names = ", ".join(f'"{name}"' for name in rule.candidates)
        assert f"* {names}: {rule.objective} / set {rule.constraint}." in fw.minimize.__doc__


def test_a_result_says_what_ran_and_why():
    f = fw.LinearModel(np.eye(3), [1.0, 2.0, 3.0])
    chosen = fw.minimize(f, fw.L1Ball(1.0))
    assert chosen.method == "apg"
    assert chosen.method.why in {rule.why for rule in RULES}
    asked = fw.minimize(f, fw.L1Ball(1.0), method="rk44", tol=1e-2)
    assert (asked.method, asked.method.why) == ("rk44", "it was asked for")
