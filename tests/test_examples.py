"""The examples run, and their answers are those of somebody else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in set(sys.modules) - before:
        if name in {path.stem for path in EXAMPLES.glob("*.py")}:
            del sys.modules[name]


def test_no_measurement_is_worth_more_than_an_optimal_design_makes_of_it() -> None:
    found = importlib.import_module("d_optimal_design").main(m=60, n=4)
    assert found["worst"] == pytest.approx(found["unknowns"], abs=1e-5)


def test_a_portfolio_is_that_of_cvxpy() -> None:
    found = importlib.import_module("portfolio").main(n=25)
    assert found["value"] == pytest.approx(found["independent"], abs=1e-7)


def test_a_distribution_of_maximal_entropy_is_that_of_its_dual() -> None:
    found = importlib.import_module("maximum_entropy").main(n=15)
    assert found["value"] == pytest.approx(found["independent"], abs=1e-7)
    assert found["difference"] < 1e-3


def test_a_turned_cloud_is_found_again() -> None:
    found = importlib.import_module("gromov_wasserstein").main(n=12, starts=8)
    assert found["matched"] == 1.0
    assert found["value"] < 1e-6


def test_graphs_are_matched_about_as_well_as_by_faq(tmp_path: Path) -> None:
    module = importlib.import_module("graph_matching")
    A, B = module.grid_and_flows(3, 0)
    lines = [" ".join(str(int(v)) for v in row) for M in (A, B) for row in M]
    (tmp_path / "grid.dat").write_text("9\n\n" + "\n".join(lines))
    ours, faq = module.main(str(tmp_path / "grid.dat"), starts=3)["grid"]
    assert ours <= 1.1 * faq
    value, p = module.match(A, B, 3)
    assert value == pytest.approx(sum(A[i, j] * B[p[i], p[j]] for i in range(9) for j in range(9)))
