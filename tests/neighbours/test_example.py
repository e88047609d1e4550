"""The benchmark of training, in a reduced size: do all optimisers learn, and does the script print and draw?"""

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import training
from record import Record


@pytest.fixture
def quiet():
    """Random numbers and threads as they were before a test."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


@pytest.mark.usefixtures("quiet")
def test_every_optimiser_learns_digits(tmp_path, capsys, monkeypatch):
    few = {name: (make, rates[1:4]) for name, (make, rates) in training.OPTIMISERS.items()}
    monkeypatch.setattr(training, "OPTIMISERS", few)
    runs = training.compare(training.digits(600), 4, (0,), Record("training"))
    assert len(runs) == 9
    for name, (_, rates) in few.items():
        best = min((runs[name, lr][0] for lr in rates), key=lambda run: run.losses[-1])
        assert best.losses[-1] < 0.25 * math.log(10), name  # the loss of a guess is log 10
        assert best.error < 0.15, name
        assert len(best.losses) == 4
        assert best.gradients == 4 * 10
    assert capsys.readouterr().out.count("\n| ") == 1 + 1 + 9
    training.draw(runs, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").stat().st_size > 10_000


@pytest.mark.usefixtures("quiet")
def test_tableaus_get_equal_numbers_of_gradients(capsys):
    training.tableaus("digits", (1e-2,), training.of_digits(training.digits(128), 4), (0,), Record("training"))
    training.tableaus("regression", (1e-1,), training.of_regression(8), (0,), Record("training"))
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == 2 * ["| `euler`", "| `midpoint`", "| `heun`", "| `rk44`"]
    assert [(int(row[1]), int(row[2])) for row in rows] == 2 * [(8, 8), (4, 8), (4, 8), (2, 8)]


@pytest.mark.usefixtures("quiet")
def test_gaps_of_a_run_are_printed(capsys):
    training.gaps(training.digits(128), 2, Record("training"))
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith(("| 1 ", "| 2 "))]
    assert len(rows) == 2
    for row in rows:
        assert 0 < float(row[4]) <= float(row[3]) < math.inf  # a mean of gaps is at least the gap of the mean
