"""Does the optimiser for PyTorch follow its formulas, keep to PyTorch's conventions, and refuse what it cannot do?"""

import copy
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fwflow as fw
from fwflow.torch import LMO, GapStop
from tests.neighbours import recursion

SHAPES = [(5, 5), (7, 4), (3, 8)]


def parameter(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype))


def iterates(shape, dtype=torch.float32, closure=False, **options):
    *data, start = (torch.as_tensor(part, dtype=dtype) for part in recursion.problem(shape))
    w = torch.nn.Parameter(start.clone())
    optimizer, found = LMO([w], recursion.LR, radius=recursion.RADIUS, **options), []
    for _ in range(recursion.STEPS):
        w.grad = recursion.gradient(w.detach(), *data)
        optimizer.step()
        found.append(w.detach().numpy().copy())
    return np.array(found)


@pytest.mark.parametrize("options", recursion.OPTIONS.values(), ids=recursion.OPTIONS)
@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_steps_are_those_of_the_recursion(name, options):
    for shape in SHAPES:
        expected = recursion.run(recursion.FORMULAS[name], shape, **options)
        # "l1" and "nuclear" jump between vertices: rounding to float32 decides ties.
        double = name in ("l1", "nuclear")
        found = iterates(shape, torch.float64 if double else torch.float32, set=name, exact=True, **options)
        np.testing.assert_allclose(found, expected, atol=1e-10 if double else 1e-5, rtol=0)


@pytest.mark.parametrize(
    ("C", "name"), [(fw.LInfBall(1.0), "sign"), (fw.NuclearBall(1.0), "nuclear"), (lambda m: -torch.sign(m), "sign")]
)
def test_sets_of_fwflow_and_callables_are_scaled_by_the_radius(C, name):
    found = iterates((5, 4), torch.float64, set=C)
    np.testing.assert_allclose(found, recursion.run(recursion.FORMULAS[name], (5, 4)), atol=1e-6)


class OneEntry(fw.ConstraintSet):
    """Ball of the sum of absolute values, with a sparse vector as the answer."""

    def lmo(self, g, hint=None):
        place = np.abs(g).argmax()
        return sp.coo_array(([-np.sign(g[place])], ([place],)), shape=g.shape)

    def start(self, shape=None, dtype=float):
        return np.zeros(shape, dtype)

    def contains(self, x, tol=1e-9):
        return np.abs(x).sum() <= 1 + tol

    def diameter(self, shape=None):
        return 2.0


def test_oracles_may_return_what_they_may_in_minimize():
    found = iterates((5,), torch.float64, set=OneEntry())
    np.testing.assert_allclose(found, recursion.run(recursion.FORMULAS["l1"], (5,)), atol=1e-10)


def loss_of(parameters):
    return sum(((p - 1) ** 2).sum() for p in parameters) / 2


def trained(parameters, steps=20, **options):
    """Parameters after some steps on a sum of squares, and the optimiser."""
    optimizer = LMO(parameters, 0.1, **options)

    def closure():
        optimizer.zero_grad()
        loss = loss_of([p for group in optimizer.param_groups for p in group["params"]])
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return optimizer


@pytest.mark.parametrize("tableau", fw.tableaus)
@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.filterwarnings("ignore::fwflow.UncertifiedWarning")
def test_multistep_follows_the_tableau(tableau, constrained):
    """With momentum 1, against the stages of a textbook."""
    scheme, lr = fw.tableaus[tableau], 0.2
    *data, w = recursion.problem((4, 3))
    p = torch.nn.Parameter(torch.tensor(w))
    optimizer = LMO([p], lr, momentum=1.0, exact=True, tableau=tableau, constrained=constrained)
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        p.grad = torch.as_tensor(recursion.gradient(p.detach().numpy(), *data))
        return float(p.detach()[0, 0])

    for _ in range(10):
        before = float(p.detach()[0, 0])
        assert optimizer.step(closure) == before
        w = recursion.textbook_step(scheme, w, data, lr, constrained)
        np.testing.assert_allclose(p.detach().numpy(), w, atol=1e-8)
    assert calls == 10 * scheme.stages


def test_momentum_of_a_multistep_averages_all_stages():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    gradients = iter(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
    optimizer = LMO([p], 0.1, set="sign", momentum=0.25, tableau="heun")

    def closure():
        p.grad = next(gradients)

    assert optimizer.step(closure) is None
    np.testing.assert_allclose(optimizer.state[p]["momentum_buffer"], [0.75 * 0.25, 0.25])


def test_a_multistep_needs_a_closure():
    p = parameter(3, 3)
    p.grad = torch.ones(3, 3)
    before = p.detach().clone()
    with pytest.raises(ValueError, match="rk44 has 4 stages, so that step needs a closure"):
        LMO([p], 0.1, tableau="rk44").step()
    assert torch.equal(p, before)


@pytest.mark.parametrize("when", [1, 2, 3])
@pytest.mark.parametrize("kind", ["raises", "nan", "no gradient"])
def test_a_failing_stage_restores_weights_and_buffers(when, kind):
    p, q = parameter(3, 3), parameter(4)
    optimizer = LMO([p, q], 0.1, tableau="rk44")
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss_of([p, q]).backward()
        if calls == 4 + 1 + when:
            if kind == "raises":
                raise KeyboardInterrupt
            q.grad = None if kind == "no gradient" else torch.full((4,), math.nan)

    optimizer.step(closure)
    before, buffer = p.detach().clone(), optimizer.state[p]["momentum_buffer"].clone()
    with pytest.raises(KeyboardInterrupt if kind == "raises" else ValueError):
        optimizer.step(closure)
    assert torch.equal(p, before)
    assert torch.equal(optimizer.state[p]["momentum_buffer"], buffer)


def test_uncertified_tableaus_say_so():
    with pytest.warns(fw.UncertifiedWarning, match="midpoint"):
        LMO([parameter(2, 2)], 0.5, tableau="midpoint")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_gradients_that_are_not_finite_change_nothing(name, bad):
    p, q = parameter(3, 4), parameter(4)
    optimizer = trained([("first", p), ("second", q)], set=name)
    before = copy.deepcopy((p, q, optimizer.state_dict()["state"]))
    q.grad[2] = bad
    with pytest.raises(ValueError, match=r"\['second'\] are not finite; no weight was changed"):
        optimizer.step()
    for old, new in zip(before[:2], (p, q), strict=True):
        assert torch.equal(old, new)
    for place, state in before[2].items():
        assert torch.equal(state["momentum_buffer"], optimizer.state_dict()["state"][place]["momentum_buffer"])


def test_large_finite_gradients_are_no_error():
    p = parameter(3, 4)
    optimizer = LMO([p], 0.1, exact=True)
    p.grad = torch.full((3, 4), 1e38) * torch.tensor([1.0, 2, 3, 1])
    optimizer.step()
    assert torch.isfinite(p).all()


def test_without_the_check_such_gradients_reach_the_weights():
    p = parameter(3)
    p.grad = torch.full((3,), math.nan)
    LMO([p], 0.1, check_finite=False).step()
    assert torch.isnan(p).all()


@pytest.mark.parametrize("name", recursion.FORMULAS)
@pytest.mark.parametrize("exact", [True, False])
def test_ugly_shapes(name, exact):
    shapes = [(), (1,), (5,), (1, 1), (1, 4), (4, 1), (2, 3, 2), (4, 3, 2, 2), (2, 1, 3, 2, 2)]
    many = [parameter(*shape) for shape in shapes]
    empty = [parameter(0), parameter(0, 3), parameter(3, 0)]
    optimizer = trained([*many, *empty], set=name, exact=exact, track_gap=True)
    assert all(torch.isfinite(p).all() for p in many)
    assert optimizer.last_gap.tensors.keys() == {*range(len(many))}


def test_zero_gradients_shrink_weights_towards_the_centre():
    p = parameter(3, 4)
    before = p.detach().clone()
    p.grad = torch.zeros(3, 4)
    LMO([p], 0.1).step()
    torch.testing.assert_close(p.detach(), 0.9 * before)


def test_parameters_without_a_gradient_do_not_change():
    p, q = parameter(3, 3), parameter(2)
    frozen = torch.nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)
    optimizer = LMO([p, q, frozen], 0.1)
    p.grad = torch.ones(3, 3)
    before = q.detach().clone()
    optimizer.step()
    assert torch.equal(q, before)
    assert torch.equal(frozen, torch.ones(2, dtype=torch.int64))
    LMO([parameter(2)], 0.1).step()  # no gradient at all


def test_sparse_gradients_are_an_error():
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1, 2])).sum().backward()
    before = embedding.weight.detach().clone()
    with pytest.raises(ValueError, match="'weight' has a sparse gradient"):
        LMO(embedding.named_parameters(), 0.1).step()
    assert torch.equal(embedding.weight, before)


def test_complex_parameters_are_an_error():
    with pytest.raises(ValueError, match="parameter 0 is complex"):
        LMO([torch.nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))], 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set": "spectrum"}, "did you mean 'spectral'"),
        ({"set": 3}, "set=3 is not known"),
        ({"radius": 0.0}, "radius must be a positive"),
        ({"radius": math.nan}, "radius must be a positive"),
        ({"momentum": 0.0}, r"momentum must lie in \(0, 1\]"),
        ({"momentum": 1.1}, r"momentum must lie in \(0, 1\]"),
        ({"weight_decay": -1.0}, "weight_decay must"),
        ({"lr": -0.1}, "lr must"),
        ({"lr": math.nan}, "lr must"),
        ({"lr": 1.5}, "lr=1.5 is too large"),
        ({"lr": 0.6, "weight_decay": 1.0}, "lr=0.6 is too large"),
        ({"nesterov": 1}, "nesterov must be True or False"),
        ({"kernels": "flat"}, "kernels='flat' is not known"),
        ({"ns_dtype": "float16"}, "ns_dtype='float16' is not known"),
        ({"ns_steps": 0}, "ns_steps must be an integer"),
        ({"tableau": "rk4"}, "rk44"),
        ({"tableau": 4}, "tableau must be a name"),
        ({"set": fw.Birkhoff(3)}, r"parameter 0 has shape \(2, 2\); its set has members of shape \(3, 3\)"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        LMO([parameter(2, 2)], **{"lr": 0.1} | options)
    if "tableau" not in options:
        optimizer = LMO([parameter(2, 2, seed=1)], 0.1)
        with pytest.raises(ValueError, match=message.replace("parameter 0", "parameter 1")):
            optimizer.add_param_group({"params": [parameter(2, 2)], **options})
        assert len(optimizer.param_groups) == 1
        w = optimizer.param_groups[0]["params"][0]
        w.grad, before = torch.ones(2, 2), w.detach().clone()
        optimizer.param_groups[0].update(options)
        for asked in (optimizer.step, optimizer.gap):
            with pytest.raises(ValueError, match=message):
                asked()
        assert torch.equal(w, before)


def test_a_scheduler_that_leaves_the_set_is_an_error():
    p = parameter(2, 2)
    optimizer = LMO([p], 0.5)
    optimizer.param_groups[0]["lr"] = 1.5
    p.grad = torch.ones(2, 2)
    before = p.detach().clone()
    with pytest.raises(ValueError, match="too large"):
        optimizer.step()
    assert torch.equal(p, before)


def test_a_callable_with_a_wrong_answer_is_an_error():
    p = parameter(2, 2)
    p.grad = torch.ones(2, 2)
    before = p.detach().clone()
    for wrong in (lambda m: m[0], lambda m: m.sum(), lambda m: m.numpy(), lambda m: 1j * m, lambda m: (m, m)):
        with pytest.raises(ValueError, match=r"set must return a tensor of shape \(2, 2\)"):
            LMO([p], 0.1, set=wrong).step()
    assert torch.equal(p, before)


def test_groups_have_their_own_sets():
    p, q, r = parameter(4, 4), parameter(4, 4, seed=1), parameter(4)
    groups = [
        {"params": [p], "set": "spectral", "radius": 2.0},
        {"params": [q], "set": "sign", "radius": 0.1, "lr": 0.2},
        {"params": [r], "set": fw.Simplex(), "momentum": 1.0},
    ]
    trained(groups, steps=200, exact=True)
    assert torch.linalg.matrix_norm(p, 2) <= 2 + 1e-5
    assert q.abs().max() <= 0.1 + 1e-6
    assert float(r.detach().sum()) == pytest.approx(1, abs=1e-5)
    assert r.min() >= 0


def test_equal_shapes_share_a_call_and_answer_alike(monkeypatch):
    many = [parameter(6, 4, seed=i) for i in range(5)] + [parameter(3, seed=i) for i in range(3)]
    alone = [copy.deepcopy(p) for p in many]
    stacks = []
    import fwflow.torch as module

    original = module.steepest
    monkeypatch.setattr(module, "steepest", lambda xp, kind, x, f: stacks.append(len(x)) or original(xp, kind, x, f))
    trained(many, steps=3)
    assert stacks == [5, 3] * 3
    for together, one in zip(many, alone, strict=True):
        trained([one], steps=3)
        torch.testing.assert_close(together, one)


def test_large_tensors_are_not_stacked(monkeypatch):
    import fwflow.torch as module

    monkeypatch.setattr(module, "_BATCH", 24)
    many = [parameter(3, 4, seed=i) for i in range(5)]
    alone = [copy.deepcopy(p) for p in many]
    trained(many, steps=3)
    for together, one in zip(many, alone, strict=True):
        trained([one], steps=3)
        torch.testing.assert_close(together, one)


@pytest.mark.parametrize("steps", [0, 5])
def test_checkpoints_continue_exactly(steps, tmp_path):
    p, q = parameter(4, 3), parameter(3)
    optimizer = trained([{"params": [p], "radius": 3.0}, {"params": [q], "set": fw.L1Ball(2.0)}], steps=steps)
    torch.save({"weights": [p, q], "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    again = [torch.nn.Parameter(w) for w in saved["weights"]]
    other = LMO([{"params": [again[0]]}, {"params": [again[1]], "set": fw.L1Ball(2.0)}], 0.1)
    other.load_state_dict(saved["optimizer"])
    assert other.param_groups[0]["radius"] == 3.0
    for o, parameters in ((optimizer, [p, q]), (other, again)):
        for _ in range(5):
            o.zero_grad()
            loss_of(parameters).backward()
            o.step()
    assert torch.equal(p, again[0])
    assert torch.equal(q, again[1])


BUFFER = ("state", 0, "momentum_buffer")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("state",), None, "state_dict must have a dict 'state'"),
        (("param_groups",), [3], "state_dict must have a dict 'state'"),
        *((("param_groups", 0, name), None, rf"lacks \['{name}'\]") for name in ("params", "kernels", "tableau", "lr")),
        (("param_groups", 0, "tableau"), "euler", "saved with tableau='euler'; this optimiser has 'heun'"),
        (("param_groups", 0, "set"), "spectrum", "saved with set='spectrum'"),
        (("param_groups", 0, "set"), ["sign"], r"saved with set=\['sign'\]"),
        (("param_groups", 0, "radius"), -1.0, "radius must be a positive"),
        (("param_groups", 0, "lr"), 2.0, "lr=2 is too large"),
        (BUFFER, torch.ones(2), r"parameter 'w' must have tensors of shape \(3, 2\).*got 'momentum_buffer'"),
        (BUFFER, 1.0, "got 'momentum_buffer': float 1.0"),
        (("state", 0, "exp_avg"), torch.ones(3, 2), "got 'exp_avg'"),
        (("state", 0), [1.0], "got '': list"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(path, value, message):
    optimizer = trained([("w", parameter(3, 2))], tableau="heun")
    saved, before = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(optimizer.state_dict())
    *outer, last = path
    place = saved
    for key in outer:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert torch.equal(after["state"][0]["momentum_buffer"], before["state"][0]["momentum_buffer"])


@pytest.mark.parametrize("saved", [None, [], torch.optim.AdamW([parameter(2)]).state_dict()], ids=str)
def test_what_is_no_state_is_refused(saved):
    with pytest.raises(ValueError, match=r"state_dict must have|lacks"):
        LMO([parameter(2)], 0.1).load_state_dict(saved)


def test_the_coefficients_of_a_tableau_are_compared():
    heun, other = fw.tableaus["heun"], fw.Tableau([[0, 0], [0.75, 0]], [1 / 3, 2 / 3], name="heun")
    for tableau in (heun, other):
        optimizer = copy.deepcopy(LMO([parameter(2)], 0.1, tableau=tableau))
        optimizer.load_state_dict(LMO([parameter(2)], 0.1, tableau=tableau).state_dict())
    with pytest.raises(ValueError, match="tableau='heun'; this optimiser has 'heun with A = "):
        optimizer.load_state_dict(LMO([parameter(2)], 0.1, tableau="heun").state_dict())


def test_a_state_with_another_set_object_is_refused():
    saved = trained([parameter(3)], set=fw.L1Ball(2.0)).state_dict()
    for other in (fw.L1Ball(3.0), "spectral"):
        with pytest.raises(ValueError, match=r"saved with set='L1Ball\(2"):
            LMO([parameter(3)], 0.1, set=other).load_state_dict(saved)


def test_copies_of_an_optimiser_keep_all_options():
    optimizer = LMO([parameter(3, 3)], 0.1, tableau="rk44", track_gap=True)
    again = copy.deepcopy(optimizer)
    with pytest.raises(ValueError, match="rk44"):
        again.step()
    assert again.last_gap.total == 0


def test_schedulers_of_pytorch_change_the_step():
    p = parameter(3, 3)
    optimizer = LMO([p], 0.4, momentum=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    sizes = []
    for _ in range(3):
        before = p.detach().clone()
        p.grad = torch.eye(3)
        optimizer.step()
        s = -torch.eye(3)  # up to the Newton-Schulz iterations
        sizes.append(float((p.detach() - before).norm() / (s - before).norm()))
        scheduler.step()
    assert sizes == pytest.approx([0.4, 0.2, 0.1], rel=0.3)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_a_tensor_is_a_learning_rate():
    optimizer = LMO([parameter(3, 3)], torch.tensor(0.1))
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3, 3)
    optimizer.step()


def test_clipping_by_pytorch_changes_nothing_without_momentum():
    """Vertices do not depend on the size of a gradient."""
    p, q = parameter(4, 4), parameter(4, 4)
    for w, clipped in ((p, False), (q, True)):
        optimizer = LMO([w], 0.1, momentum=1.0, exact=True)
        for _ in range(5):
            optimizer.zero_grad()
            loss_of([w]).backward()
            if clipped:
                torch.nn.utils.clip_grad_norm_([w], 1e-3)
            optimizer.step()
    torch.testing.assert_close(p, q)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_weights_keep_their_type(name, dtype):
    many = [parameter(4, 3, dtype=dtype), parameter(3, dtype=dtype), parameter(2, 3, 2, dtype=dtype)]
    optimizer = trained(many, set=name, radius=2.0, track_gap=True)
    for p in many:
        assert p.dtype == dtype
        assert torch.isfinite(p).all()
        assert optimizer.state[p]["momentum_buffer"].dtype == dtype
    assert math.isfinite(optimizer.last_gap.total)


@pytest.mark.parametrize("tableau", ["euler", "heun"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_weights_follow_small_learning_rates(dtype, tableau):
    """A step is less than the rounding of a weight. Without gradients, weights decay as (1 - lr)^300."""
    narrow, wide = parameter(64, 64, dtype=dtype), parameter(64, 64, dtype=dtype).detach().float()
    w = torch.nn.Parameter(wide.clone())
    for p in (narrow, w):
        p.grad = torch.zeros_like(p)
        optimizer = LMO([p], 5e-4, tableau=tableau)
        for _ in range(300):
            optimizer.step(lambda: None)
    eps = torch.finfo(dtype).eps
    assert float(narrow.detach().float().norm() / wide.norm()) == pytest.approx((1 - 5e-4) ** 300, rel=1e-3)
    torch.testing.assert_close(narrow.detach().float(), w.detach(), rtol=eps, atol=eps**2)


def test_narrow_weights_keep_their_copy_in_checkpoints_and_follow_other_changes(tmp_path):
    p = parameter(6, 4, dtype=torch.bfloat16)
    optimizer = trained([p], exact=True)
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    q = torch.nn.Parameter(p.detach().clone())
    again = LMO([q], 0.1, exact=True)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert again.state[q]["master"].dtype == torch.float32
    for w, o in ((p, optimizer), (q, again)):
        w.grad = torch.ones_like(w)
        o.step()
    assert torch.equal(optimizer.state[p]["master"], again.state[q]["master"])
    with torch.no_grad():
        p.fill_(3.0)
    p.grad, optimizer.param_groups[0]["lr"] = torch.zeros_like(p), 0.0
    optimizer.step()
    assert torch.equal(p, torch.full_like(p, 3.0))


def test_autocast_and_scaled_losses():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer, scaler = LMO(model.parameters(), 0.05, radius=2.0), torch.amp.GradScaler("cpu")
    x, y = torch.randn(32, 6), torch.randn(32, 2)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        values.append(loss.item())
    assert values[-1] < 0.8 * values[0]


@pytest.mark.parametrize("name", recursion.FORMULAS)
def test_weights_stay_in_their_set(name):
    p = parameter(5, 4)
    norm = {
        "spectral": lambda w: np.linalg.norm(w, 2),
        "nuclear": lambda w: np.linalg.norm(w, "nuc"),
        "row": lambda w: np.linalg.norm(w, axis=1).max(),
        "column": lambda w: np.linalg.norm(w, axis=0).max(),
        "sign": lambda w: np.abs(w).max(),
        "rms": lambda w: np.sqrt(np.mean(w**2)),
        "l1": lambda w: np.abs(w).sum(),
    }[name]
    with torch.no_grad():
        p.div_(norm(p.detach().numpy()))
    optimizer = LMO([p], 0.3, set=name, exact=True, tableau="rk44")

    def closure():
        optimizer.zero_grad()
        loss_of([p]).backward()

    for _ in range(30):
        optimizer.step(closure)
        assert norm(p.detach().numpy()) <= 1 + 1e-5


def test_newton_schulz_stays_near_the_ball():
    """The page states the interval, and for which singular values it holds."""
    for shape, seed in (((30, 30), 0), ((60, 20), 1), ((8, 40), 2)):
        p, size = parameter(*shape, seed=seed, dtype=torch.float64), min(shape)
        U, _, V = torch.linalg.svd(p.detach(), full_matrices=False)
        sigma = torch.logspace(0, -2.4, size, dtype=torch.float64)
        p.grad = U @ torch.diag(sigma) @ V
        LMO([p], 1.0, momentum=1.0).step()
        found = -(U * (p.detach() @ V.mT)).sum(0)
        torch.testing.assert_close(p.detach(), -U @ torch.diag(found) @ V)
        well = sigma >= 0.003 * sigma.norm()
        assert found[well].min() >= 0.68
        assert found.max() <= 1.203


def test_the_gap_is_that_of_the_core():
    *data, w = recursion.problem((5, 4))
    p, g = torch.nn.Parameter(torch.as_tensor(w)), recursion.gradient(w, *data)
    p.grad = torch.as_tensor(g)
    for name, C in (("spectral", fw.SchattenBall(math.inf, 2.0)), ("l1", fw.L1Ball(2.0)), ("sign", fw.LInfBall(2.0))):
        expected = np.vdot(g, w - np.asarray(C.lmo(g)))
        for form in (name, C):
            radius = 2.0 if form == name else 1.0
            gap = LMO([("w", p)], 0.1, set=form, radius=radius, exact=True).gap()
            assert gap.total == gap.tensors["w"] == pytest.approx(expected)


def test_gaps_of_steps_are_those_before_the_weights_moved():
    p, q = parameter(4, 4), parameter(3)
    optimizer = trained([p, q], steps=0, momentum=1.0, exact=True, track_gap=True)
    loss_of([p, q]).backward()
    expected = optimizer.gap()
    optimizer.step()
    assert optimizer.last_gap.total == pytest.approx(expected.total)
    assert optimizer.last_gap.tensors == pytest.approx(expected.tensors)


def test_gaps_are_in_the_order_of_the_parameters():
    many = [(name, parameter(*shape)) for name, shape in (("a", (3, 3)), ("b", (2,)), ("c", (3, 3)))]
    optimizer = trained(many, steps=1, track_gap=True)
    assert [*optimizer.last_gap.tensors] == [*optimizer.gap().tensors] == ["a", "b", "c"]


def test_untracked_gaps_say_how_to_track_them():
    with pytest.raises(ValueError, match="track_gap=True"):
        _ = LMO([parameter(2)], 0.1).last_gap


def test_the_gap_bounds_the_error_of_a_convex_loss_and_stops_it():
    p = parameter(4, 4)
    optimizer = LMO([p], 0.5, momentum=1.0, exact=True, radius=2.0, track_gap=True)
    with torch.no_grad():
        p.mul_(0.1)
    stop, k = GapStop(tol=0.05), 0
    best = fw.minimize(fw.Smooth(lambda x: ((x - 1) ** 2).sum() / 2, lambda x: x - 1), fw.SchattenBall(math.inf, 2.0), np.zeros((4, 4)), line_search="exact", tol=1e-6).fun  # noqa: E501  # fmt: skip
    while True:
        optimizer.param_groups[0]["lr"] = 2 / (k + 2)
        optimizer.zero_grad()
        loss = loss_of([p])
        loss.backward()
        optimizer.step()
        assert loss.item() - best <= optimizer.last_gap.total + 1e-4
        if stop(optimizer.last_gap.total):
            break
        k += 1
        assert k < 5000
    assert loss.item() - best <= 0.05 + 1e-4


def test_memory_is_one_buffer_for_each_parameter():
    p, q = parameter(4, 4), parameter(3)
    optimizer = trained([p, q])
    for w in (p, q):
        assert optimizer.state[w].keys() == {"momentum_buffer"}
        assert optimizer.state[w]["momentum_buffer"].shape == w.shape
    plain = trained([parameter(4, 4)], momentum=1.0)
    assert not any(plain.state.values())


class Peak(TorchDispatchMode):
    """The largest number of bytes, at the end of any operation, of the tensors that operations made and still live."""

    def __init__(self):
        super().__init__()
        self.bytes, self._live = 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        answer = func(*args, **(kwargs or {}))
        known = {StorageWeakRef(x.untyped_storage()).cdata for x in tree_leaves((args, kwargs)) if torch.is_tensor(x)}
        for x in tree_leaves(answer):
            if torch.is_tensor(x):
                storage = StorageWeakRef(x.untyped_storage())
                if storage.cdata not in known:
                    self._live[storage.cdata] = storage, x.untyped_storage().nbytes()
        self._live = {key: one for key, one in self._live.items() if not one[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self._live.values()))
        return answer


@pytest.mark.parametrize("options", [{}, {"nesterov": True, "track_gap": True}], ids=str)
def test_a_step_on_many_matrices_needs_little_memory(options):
    """The buffers of 100 matrices of 512 x 512 have 105 MB."""
    many = [torch.nn.Parameter(torch.ones(512, 512)) for _ in range(100)]
    for p in many:
        p.grad = torch.ones_like(p)
    optimizer = LMO(many, 0.1, ns_steps=1, **options)
    with Peak() as peak:
        optimizer.step()
    assert 100e6 < peak.bytes < 150e6


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What two processes that share tensors found."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "tests.neighbours.ranks"]
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen([*command, str(rank), str(folder)], cwd=root) for rank in range(2)]
    try:
        for process in processes:
            assert process.wait(timeout=240) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_shards_have_the_steps_and_gaps_of_whole_tensors(ranks):
    for found, same in zip(ranks[0]["runs"].items(), ranks[1]["runs"].items(), strict=True):
        assert found[1][0] == same[1][0]  # so that all stop together
        (sharded, gaps), (whole, expected) = found[1]
        assert gaps == pytest.approx(expected, rel=1e-6), found[0]
        for w, x in zip(sharded, whole, strict=True):
            np.testing.assert_allclose(w, x, rtol=1e-6, atol=1e-9, err_msg=found[0])


def test_a_gradient_that_is_not_finite_stops_all_ranks(ranks):
    for rank in ranks:
        assert {*rank["errors"].values()} == {
            "the gradients of the parameters [2] are not finite; no weight was changed"
        }


def test_steps_leave_gradients_alone():
    p = parameter(4, 4)
    p.grad = torch.ones(4, 4)
    for options in ({}, {"momentum": 1.0}, {"nesterov": True}):
        LMO([p], 0.1, **options).step()
        assert torch.equal(p.grad, torch.ones(4, 4))


def test_no_warning_is_given():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained([parameter(3, 3), parameter(2)], track_gap=True, tableau="rk44")
