"""Run an example of the gallery in small: its first cell sets constants, which a test may replace."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def execute(name: str, monkeypatch: pytest.MonkeyPatch, **constants: Any) -> dict[str, Any]:
    """Run an example with other values of its constants, check its figures, and return its names."""
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    missing = set(constants)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and (name_set := ast.unparse(statement.targets[0])) in constants:
            statement.value = ast.copy_location(ast.Constant(constants[name_set]), statement.value)
            missing.discard(name_set)
    assert not missing, f"{name} does not set {sorted(missing)}"
    names: dict[str, Any] = {"__name__": name}
    plt.switch_backend("Agg")
    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)
    with mpl.rc_context():
        exec(compile(tree, f"{name}.py", "exec", dont_inherit=True), names)
        assert plt.get_fignums(), "no figure"
        for number in plt.get_fignums():
            figure = plt.figure(number)
            figure.canvas.draw()  # raises if the layout fails
            assert any(ax.has_data() and ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    plt.close("all")
    return names
