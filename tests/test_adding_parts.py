"""How many files does a new part change? One of each kind is added to a copy of the package, and then used."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
#: kind of part -> files, as CONTRIBUTING.md says
STATED = {kind: int(count) for kind, count in re.findall(r"^\| ([a-z ]+) \| (\d+) \|", CONTRIBUTING, flags=re.M)}
COPIED = ("src/fwflow", "tests", "docs", "CONTRIBUTING.md", "pyproject.toml")

SET = r'''
"""The part of the Euclidean ball without negative entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from fwflow._validation import Array, positive
from fwflow.points.vertices import DenseVertex, Shape
from fwflow.sets.base import ConstraintSet


class PositiveBall(ConstraintSet):
    r""":math:`\{x \ge 0 : \|x\|_2 \le r\}`. It starts at zero.

    Notes
    -----
    :Family: vectors
    :Uses: non-negative regression with a bounded norm
    :Oracle: the answer of `L2Ball` for the negative part of :math:`g`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.PositiveBall(2.0).lmo(np.array([1.0, -3.0])))
    array([0., 2.])
    """

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")

    def __repr__(self) -> str:
        return f"PositiveBall({self.radius})"

    def lmo(self, g: Array, hint: Any = None) -> DenseVertex:
        down = np.maximum(-g, 0)
        size = np.abs(down).max()
        if size == 0:
            return DenseVertex(down)
        down = down / size
        return DenseVertex((self.radius / np.linalg.norm(down) * down).astype(g.dtype))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        if shape is None:
            raise ValueError("shape is needed")
        return np.zeros(shape, dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = np.asarray(x)
        return bool((x >= -tol * self.radius).all() and np.linalg.norm(x) <= self.radius * (1 + tol))

    def diameter(self, shape: Shape | None = None) -> float:
        return 2**0.5 * self.radius
'''

LOSS = r'''
@dataclass(frozen=True)
class PseudoHuber(EntrywiseLoss):
    r""":math:`\sqrt{1 + r^2} - 1` with :math:`r = z - b`."""

    curvature = 1.0

    def values(self, z: Array, b: Array) -> Array:
        return np.sqrt(1 + (z - b) ** 2) - 1

    def derivative(self, z: Array, b: Array) -> Array:
        return (z - b) / np.sqrt(1 + (z - b) ** 2)

    def second(self, z: Array, b: Array) -> Array:
        return (1 + (z - b) ** 2) ** -1.5


'''

PSEUDO_HUBER = """
def pseudo_huber(z, b):
    return (np.hypot(1, z - b) - 1).sum(), (z - b) / np.hypot(1, z - b)


"""

SEARCH = '''
@dataclass(frozen=True)
class Halving(LineSearch):
    """Halve the step until f decreases."""

    def step(self, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        trial = limit if line.slope0 < 0 else 0.0
        while trial > 1e-16 and line.value(trial) > line.value0:
            trial /= 2
        return trial, None


'''

MOMENTUM = '''
@dataclass(frozen=True)
class LastGradients(Momentum):
    """The mean of the last two gradients."""

    uses_iterate = True
    linear = True

    def aim(self, x_bar: Point, gamma: float, memory: Any, gradient: GradientAt, oracle: Oracle) -> tuple[Lifted, Any]:
        g = gradient(x_bar)
        return oracle(g if memory is None else 0.5 * (g + memory)), g


'''


class Copy:
    """A copy of the package, its tests and its pages, in which parts are added."""

    def __init__(self, root):
        self.root = root
        ignored = shutil.ignore_patterns("__pycache__", "*.xz", "*.png", "_build", "gallery", "generated")
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name, ignore=ignored)
            else:
                shutil.copy(ROOT / name, root / name)

    def files(self):
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in self.root.rglob("*.*")}

    def insert(self, name, before, text):
        """Write some text before a place that is there once."""
        path = self.root / name
        content = path.read_text(encoding="utf-8")
        assert content.count(before) == 1, f"{name}: {before}"
        path.write_text(content.replace(before, text + before), encoding="utf-8")

    def add_set(self):
        (self.root / "src/fwflow/sets/positive.py").write_text(SET.lstrip(), encoding="utf-8")
        catalogue = "src/fwflow/sets/__init__.py"
        self.insert(catalogue, "from fwflow.sets.products", "from fwflow.sets.positive import PositiveBall\n")
        self.insert(catalogue, '    "Product",\n', '    "PositiveBall",\n')
        self.insert("tests/catalogue.py", '    "simplex": (', '    "positive-ball": (fw.PositiveBall(2.0), (6,)),\n')
        minimum = '    "positive-ball": lambda g: -2 * float(np.linalg.norm(np.minimum(g, 0))),\n'
        self.insert("tests/catalogue.py", '    "spectraplex": lambda', minimum)

    def add_loss(self):
        self.insert("src/fwflow/objectives/losses.py", "class Ahead", LOSS.lstrip())
        self.insert(
            "src/fwflow/objectives/losses.py", '        "huber": Huber', '        "pseudo-huber": PseudoHuber,\n'
        )
        model = 'lambda n, seed: fw.LinearModel(design(12, n, seed), targets(12, seed), "pseudo-huber")'
        self.insert("tests/catalogue.py", '    "quadratic": _quadratic', f'    "pseudo-huber": {model},\n')
        formulas = "tests/catalogue.py"
        self.insert(formulas, "def linear(", PSEUDO_HUBER.lstrip())
        self.insert(formulas, '    "quadratic": quadratic,', '    "pseudo-huber": linear(pseudo_huber, targets),\n')

    def add_tableau(self):
        drawing = '    ("ssprk32", "SSP-RK3-2"): """\n        1/2\n        1/2  1/2\n        1/3  1/3  1/3\n    """,\n'
        self.insert("src/fwflow/tableau/catalogue.py", '    ("bs3", ', drawing)
        self.insert("src/fwflow/tableau/catalogue.py", '    "bs3",', '    "ssprk32",\n')
        self.insert("tests/catalogue.py", '    "bs3": 3,', '    "ssprk32": 2,\n')

    def add_line_search(self):
        self.insert("src/fwflow/steps/searches.py", "def _secant()", SEARCH.lstrip())
        self.insert("src/fwflow/steps/searches.py", '"LineSearch", ', '"Halving", ')
        self.insert("src/fwflow/steps/searches.py", '        "secant": _secant', '        "halving": Halving,\n')

    def add_momentum(self):
        self.insert("src/fwflow/steps/momentum.py", "def extrapolation(", MOMENTUM.lstrip())
        self.insert("src/fwflow/steps/momentum.py", '"Momentum", ', '"LastGradients", ')
        self.insert("src/fwflow/steps/momentum.py", '"nesterov": Nesterov,', '"last": LastGradients, ')

    def generate(self):
        """Write the pages of the reference that the build of the site writes."""
        self.run("docs/_ext/catalogue.py")

    def run(self, *arguments):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([f"{self.root}/src", str(self.root)])}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


ADD = {
    "set": Copy.add_set,
    "loss": Copy.add_loss,
    "tableau": Copy.add_tableau,
    "line search": Copy.add_line_search,
    "momentum": Copy.add_momentum,
}


@pytest.mark.parametrize("kind", ADD)
def test_a_part_changes_as_many_files_as_contributing_says(kind, tmp_path):
    copy = Copy(tmp_path)
    before = copy.files()
    ADD[kind](copy)
    after = copy.files()
    assert len([name for name, content in after.items() if before.get(name) != content]) == STATED[kind]
    assert STATED.keys() == ADD.keys()


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy with a part more of every kind."""
    copy = Copy(tmp_path_factory.mktemp("extended"))
    for add in ADD.values():
        add(copy)
    copy.generate()
    return copy


SCRIPT = """
import json, sys
from pathlib import Path

sys.path.insert(0, "docs/_ext")
import catalogue, numpy as np, set_pictures
from typer.testing import CliRunner

import fwflow as fw
from fwflow import cli
from fwflow.sklearn import L1Regression

A = np.random.default_rng(0).standard_normal((20, 4))
f = fw.LinearModel(A, A[:, 0], loss="pseudo-huber")
r = fw.minimize(
    f, fw.PositiveBall(0.5), method="ssprk32", line_search="halving", momentum="last", tol=0, max_iter=20
)

def shown(*arguments):
    return CliRunner().invoke(cli.app, [*arguments]).output

set_pictures.redraw("PositiveBall", Path("drawn"))
pages = catalogue.reference_pages()
print(json.dumps({
    "package": [str(Path(fw.__file__).parents[1]), bool(r.fun < r.trace["fun"][0]), r.feasible],
    "public": [name in fw.__all__ and hasattr(fw, name) for name in ("PositiveBall", "Halving", "LastGradients")],
    "estimators": L1Regression(loss="pseudo-huber").fit(A, A[:, 0]).coef_.shape,
    "lists": [
        "PositiveBall" in shown("list", "sets"),
        "pseudo-huber" in shown("list", "losses"),
        "ssprk32" in shown("list", "tableaus"),
        "halving" in shown("list", "line-searches"),
        "pseudo-huber" in shown("solve", "--help"),
    ],
    "reference": ["   PositiveBall\\n" in pages["api/sets.rst"], "   Halving\\n" in pages["api/steps.rst"]],
    "tables": [
        "PositiveBall(radius)" in catalogue.expand("<!-- catalogue: sets vectors -->", True),
        "pseudo-huber" in catalogue.expand(".. catalogue: losses", False),
        '"last"' in catalogue.expand(".. catalogue: momenta", False),
    ],
    "picture": Path("drawn/PositiveBall.png").exists(),
}))
"""


def test_new_parts_are_public_listed_and_documented(extended):
    found = json.loads(extended.run("-c", SCRIPT))
    assert found == {
        "package": [str(extended.root / "src"), True, True],
        "public": [True] * 3,
        "estimators": [4],
        "lists": [True] * 5,
        "reference": [True] * 2,
        "tables": [True] * 3,
        "picture": True,
    }


#: Tests that run over the catalogues, by file and name.
PICKED_UP = (
    "tests/sets/test_oracles.py::test_catalogue_and_independent_answers_cover_every_set",
    "tests/sets/test_oracles.py::test_no_member_beats_the_oracle[positive-ball]",
    "tests/sets/test_oracles.py::test_float32_stays_float32[positive-ball]",
    "tests/sets/test_catalogue_page.py::test_every_set_has_one_row_and_a_picture[PositiveBall]",
    "tests/sets/test_catalogue_page.py::test_what_the_page_says_holds_for_the_test_catalogue[PositiveBall]",
    "tests/sets/test_catalogue_page.py::test_pages_of_the_reference_are_up_to_date",
    "tests/objectives/test_objectives.py::test_value_and_gradient_follow_the_formula[pseudo-huber]",
    "tests/test_checks.py",
    "tests/tableau/test_tableaus.py::test_order_declared_by_algebra_by_hand_and_measured[ssprk32]",
    "tests/methods/test_names.py",
    "tests/tableau/test_tableaus.py::test_which_tableaus_are_certified",
    "tests/cli/test_catalogues.py::test_every_name_is_listed_with_a_word_on_it[sets]",
    "src/fwflow/sets/positive.py",
)


def test_tests_pick_new_parts_up(extended):
    pytest_here = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    extended.run(*pytest_here, *PICKED_UP)
    collected = extended.run(*pytest_here, "--collect-only", "tests/tableau", "tests/steps", "-m", "")
    for name in ("positive-ball", "ssprk32", "halving", "last"):
        assert re.search(rf"[\[-]{name}[\]-]", collected), name
