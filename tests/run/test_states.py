"""States continue a run exactly, and files of states are written as a whole."""

import copy
import errno
import os
import pickle

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import MOMENTA, OBJECTIVES, design, targets
from tests.run.functions import BALL, X0, B, H, assert_same_run, completion, raising, smooth


def reload(state, tmp_path):
    state.save(tmp_path / "run.state")
    return fw.State.load(tmp_path / "run.state")


PROBLEMS = {
    "linear": (lambda: OBJECTIVES["logistic"](6, 0), fw.L1Ball(3.0), None),
    "smooth": (smooth, BALL, X0),
    "completion": (completion, fw.NuclearBall(4.0), None),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("line_search", [None, "adaptive", "exact"])
@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_saved_run_continues_bit_for_bit(problem, momentum, line_search, tmp_path):
    make, C, x0 = PROBLEMS[problem]
    options = {"method": "heun", "momentum": momentum, "line_search": line_search, "tol": 0}
    whole = fw.minimize(make(), C, x0, max_iter=204, **options)
    part = fw.minimize(make(), C, x0, max_iter=197, **options)
    r = fw.minimize(make(), C, state=reload(part.state, tmp_path), max_iter=7, **options)
    assert_same_run(r, whole)
    assert (r.nit, len(r.trace)) == (204, 205)
    # The last evaluation is repeated; the verification there may have needed one of its own.
    assert whole.n_grad < r.n_grad <= whole.n_grad + 2
    assert whole.n_lmo < r.n_lmo <= whole.n_lmo + 2


@pytest.mark.parametrize("split", [0, 1, 199, 200, 201])
def test_a_run_may_be_split_anywhere(split, tmp_path):
    f, C = OBJECTIVES["logistic"](6, 0), fw.L1Ball(3.0)
    options = {"method": "fw", "tol": 0}
    whole = fw.minimize(f, C, max_iter=204, **options)
    part = fw.minimize(f, C, max_iter=split, **options)
    assert_same_run(fw.minimize(f, C, max_iter=204 - split, state=reload(part.state, tmp_path), **options), whole)


def test_a_state_saved_by_the_callback_continues(tmp_path):
    f, C = completion(), fw.NuclearBall(4.0)

    def save(state):
        if state.k == 5:
            state.save(tmp_path / "run.state")

    whole = fw.minimize(f, C, tol=0, max_iter=12, momentum="nesterov", callback=save)
    state = fw.State.load(tmp_path / "run.state")
    assert state.k == 5
    assert_same_run(fw.minimize(f, C, tol=0, max_iter=7, momentum="nesterov", state=state), whole)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("momentum", MOMENTA)
def test_continuing_leaves_the_state_as_it_was(problem, momentum):
    make, C, x0 = PROBLEMS[problem]
    options = {"momentum": momentum, "line_search": "adaptive", "tol": 0}
    part = fw.minimize(make(), C, x0, max_iter=6, **options)
    before = copy.deepcopy(part.state)
    first, second = (fw.minimize(make(), C, state=part.state, max_iter=9, **options) for _ in range(2))
    assert_same_run(first, second)
    assert (first.n_grad, first.n_lmo, first.n_design) == (second.n_grad, second.n_lmo, second.n_design)
    assert (len(part.trace), part.state.k, part.state.counts) == (7, 6, before.counts)
    np.testing.assert_array_equal(np.asarray(part.state.x), np.asarray(before.x))


OTHER_METHODS = [
    {"method": "heun"},
    {"schedule": fw.OpenLoop(c=3.0)},
    {"line_search": "exact"},
    {"momentum": "nesterov"},
]


@pytest.mark.parametrize("other", OTHER_METHODS, ids=str)
def test_a_state_of_another_method_is_refused(other):
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(ValueError, match="state belongs to"):
        fw.minimize(smooth(), BALL, state=state, **other)


def test_a_state_of_another_tableau_of_the_same_name_is_refused():
    heun = fw.Tableau([[0, 0], [1, 0]], [1 / 2, 1 / 2])
    slower = fw.Tableau([[0, 0], [0.9, 0]], [1 - 1 / 1.8, 1 / 1.8])
    assert heun.order == slower.order == 2
    schedule = fw.OpenLoop(k0=20)
    state = fw.minimize(smooth(), BALL, X0, max_iter=3, method=heun, schedule=schedule).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(smooth(), BALL, state=state, method=slower, schedule=schedule)


def test_a_state_of_another_problem_is_refused():
    state = fw.minimize(OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), max_iter=3).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(OBJECTIVES["squared"](5, 0), fw.L1Ball(1.0), state=state)


@pytest.mark.parametrize("rows", [11, 13])
def test_a_state_with_an_image_of_another_size_is_refused(rows):
    state = fw.minimize(OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), max_iter=3).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(fw.LinearModel(design(rows, 6), targets(rows)), fw.L1Ball(1.0), state=state)


def test_a_state_without_the_image_is_refused():
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(fw.Quadratic(H, B), BALL, state=state)


def test_state_and_start_exclude_each_other():
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(ValueError, match="x0 and state"):
        fw.minimize(smooth(), BALL, X0, state=state)


@pytest.mark.parametrize("present", [True, False])
def test_a_failed_save_leaves_no_trace(present, monkeypatch, tmp_path):
    path = tmp_path / "run.state"
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    if present:
        state.save(path)
    monkeypatch.setattr(os, "fsync", raising(os.fsync, 1, OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match=r"No space left.*not saved.*run\.state"):
        state.save(path)
    assert [p.name for p in tmp_path.iterdir()] == (["run.state"] if present else [])
    if present:
        assert fw.State.load(path).k == 3


def test_an_interrupted_save_leaves_no_trace(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", raising(os.fsync, 1, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fw.minimize(smooth(), BALL, X0, max_iter=3).state.save(tmp_path / "run.state")
    assert not list(tmp_path.iterdir())


def test_saving_onto_a_directory(tmp_path):
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        state.save(tmp_path / "taken")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_saving_where_nothing_can_be_written(monkeypatch, tmp_path):
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(FileNotFoundError):
        state.save(tmp_path / "nowhere" / "run.state")
    # Permissions do not bind every user, so the refusal is simulated.
    monkeypatch.setattr(os, "replace", raising(os.replace, 1, PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(PermissionError):
        state.save(tmp_path / "run.state")
    assert not list(tmp_path.iterdir())


def test_save_accepts_text_and_relative_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fw.minimize(smooth(), BALL, X0, max_iter=3).state.save("run.state")
    assert fw.State.load("run.state").k == 3


FOREIGN = {
    "text": b"k,fun,gap\n0,1,2\n",
    "empty": b"",
    "a pickle": pickle.dumps({"k": 3}),
    "unknown class": b"cnowhere\nThing\n.",
    "noise": bytes(range(256)),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused(kind, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(ValueError, match="does not hold a fwflow state"):
        fw.State.load(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "run.state"
    fw.minimize(smooth(), BALL, X0, max_iter=3).state.save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="does not hold a fwflow state"):
        fw.State.load(path)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        fw.State.load(tmp_path / "nothing")
