"""Training networks by linear minimisation oracles: against AdamW and Muon, with several tableaus, and time per step.

Run in the environment of ``make test-neighbours``:

    .venv-neighbours/bin/python benchmarks/training.py --write

``--write`` stores the tables and the figure. On a machine with a GPU, the same command uses it and more layers, and
stores the tables as ``training_gpu.md``. The data are the handwritten digits of scikit-learn, which come with it.
``--steps`` measures only the time of steps against ``torch.optim.Muon``, which takes a minute.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

import fwflow as fw
from fwflow.torch import LMO, Gap
from record import Record, on_one_thread, processor

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "training_losses.png"
#: The first rows are for training, the others for testing.
TRAINING_ROWS = 1297
BATCH = 64
SEEDS = (0, 1, 2)
#: Radius of the sets, before the factors of the shapes: the best of 2, 4, 8, 16 and 32 in a run of 4 epochs.
RADIUS = 16.0
COLOURS = {"AdamW": "#D55E00", "Muon + AdamW": "#CC79A7", "LMO": "#0072B2"}


@dataclass(frozen=True)
class Digits:
    """Images of handwritten digits, 8 x 8, and their classes."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def digits(rows: int = TRAINING_ROWS) -> Digits:
    """Return the digits in a fixed random order."""
    images, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(classes))
    x = torch.tensor(images[order].reshape(-1, 1, 8, 8) / 8 - 1, dtype=torch.float32, device=DEVICE)
    y = torch.tensor(classes[order], device=DEVICE)
    return Digits(x[:rows], y[:rows], x[TRAINING_ROWS:], y[TRAINING_ROWS:])


def network(seed: int, width: int = 32) -> nn.Module:
    """Return a small convolutional network: two convolutions and two dense layers."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = [
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, 10),
    ]  # fmt: skip
    return nn.Sequential(*layers).to(DEVICE)


class Pair:
    """Two optimisers for different parameters."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = optimizers
        self.param_groups = [group for optimizer in optimizers for group in optimizer.param_groups]

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self, closure: Callable[[], Any]) -> Any:
        loss = closure()
        for optimizer in self.optimizers:
            optimizer.step()
        return loss


def scaled_radius(p: Tensor, radius: float) -> float:
    """Return the radius of Scion's table: the root of outputs by inputs for matrices, divided by taps for kernels."""
    if p.ndim < 2:
        return radius
    return radius * math.sqrt(p.shape[0] / p.shape[1]) / math.prod(p.shape[2:])


def adamw(model: nn.Module, lr: float) -> Any:
    return torch.optim.AdamW(model.parameters(), lr, weight_decay=0.01)


def muon(model: nn.Module, lr: float) -> Any:
    """Muon for the hidden matrix, which is all that ``torch.optim.Muon`` accepts, and AdamW for the rest."""
    hidden = [model[6].weight]  # type: ignore[index]
    others = [p for p in model.parameters() if p is not hidden[0]]
    first = torch.optim.Muon(hidden, lr, weight_decay=0.1, momentum=0.95)
    return Pair(first, torch.optim.AdamW(others, lr / 10, weight_decay=0.01))


def lmo(model: nn.Module, lr: float, **options: Any) -> Any:
    """Frank-Wolfe steps for all parameters, with spectral balls and balls of the root mean square."""
    groups = [{"params": [p], "radius": scaled_radius(p, RADIUS)} for p in model.parameters()]
    return LMO(groups, lr, **{"momentum": 0.1} | options)


#: Optimisers by name, with their learning rates.
OPTIMISERS: dict[str, tuple[Callable[[nn.Module, float], Any], tuple[float, ...]]] = {
    "AdamW": (adamw, (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)),
    "Muon + AdamW": (muon, (1e-2, 3e-2, 1e-1, 3e-1, 1.0)),
    "LMO": (lmo, (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)),
}


@dataclass
class Run:
    """Losses on the training data at the end of each epoch, the test error at the end, and the number of gradients."""

    losses: list[float]
    error: float
    gradients: int


def train(
    make: Callable[[nn.Module], Any],
    data: Digits,
    epochs: int,
    seed: int,
    stages: int = 1,
    after_epoch: Callable[[nn.Module, Any], None] | None = None,
) -> Run:
    """Train a network with a learning rate that falls linearly; an epoch is a pass over the data in gradients."""
    model = network(seed)
    optimizer = make(model)
    initial = [group["lr"] for group in optimizer.param_groups]
    generator = torch.Generator().manual_seed(seed)
    batches = math.ceil(len(data.y) / BATCH)
    total = max(1, epochs * batches // stages)
    order: list[Tensor] = []
    losses = []
    for k in range(total):
        for group, lr in zip(optimizer.param_groups, initial, strict=True):
            group["lr"] = lr * (1 - k / total)
        if not order:
            order = [*torch.randperm(len(data.y), generator=generator).to(DEVICE).split(BATCH)]
        rows = order.pop()

        def closure(rows: Tensor = rows) -> Tensor:
            optimizer.zero_grad()
            loss = cross_entropy(model(data.x[rows]), data.y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimizer.step(closure)
        if (k + 1) * stages % batches < stages or k + 1 == total:
            with torch.no_grad():
                losses.append(float(cross_entropy(model(data.x), data.y)))
            if after_epoch is not None:
                after_epoch(model, optimizer)
    with torch.no_grad():
        error = float((model(data.x_test).argmax(1) != data.y_test).float().mean())
    return Run(losses, error, total * stages)


def median(runs: Iterable[Run]) -> tuple[float, float]:
    found = [(run.losses[-1], run.error) for run in runs]
    return tuple(float(np.median(column)) for column in zip(*found, strict=True))  # type: ignore[return-value]


def compare(data: Digits, epochs: int, seeds: Iterable[int], record: Record) -> dict[tuple[str, float], list[Run]]:
    """Train with every optimiser and learning rate, and print the table."""
    runs: dict[tuple[str, float], list[Run]] = {}
    record.say(
        f"**Convolutional network on handwritten digits**, {epochs} epochs, batches of {BATCH}, a learning rate that "
        f"falls linearly to zero, medians over {len([*seeds])} seeds:"
    )
    record.table("optimiser", "learning rate", "training loss", "test error")
    for name, (make, rates) in OPTIMISERS.items():
        for lr in rates:
            own = runs[name, lr] = [train(lambda m: make(m, lr), data, epochs, seed) for seed in seeds]  # noqa: B023
            loss, error = median(own)
            record.row(name, f"{lr:g}", f"{loss:.2g}", f"{100 * error:.1f} %")
    record.end_table()
    return runs


def uncertified(make: Callable[[], Any]) -> Any:
    """Return an optimiser without the warning that steps of the midpoint rule may leave the sets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.UncertifiedWarning)
        return make()


def tableaus(
    task: str,
    rates: tuple[float, ...],
    run: Callable[[str, int, float, int], Run],
    seeds: Iterable[int],
    record: Record,
) -> None:
    """Train with several tableaus at equal numbers of gradients, and print the table.

    ``run(tableau, stages, lr, seed)`` trains once.
    """
    record.say(
        f"**Tableaus at equal numbers of gradients**: {task}, exact oracles, medians over {len([*seeds])} seeds. A "
        "step with q stages computes q gradients of one batch:"
    )
    record.table("tableau", "steps", "gradients", *(f"loss, lr {lr:g}" for lr in rates))
    for name in ("euler", "midpoint", "heun", "rk44"):
        stages = fw.tableaus[name].stages
        found = [[run(name, stages, lr, seed) for seed in seeds] for lr in rates]
        count = found[0][0].gradients
        record.row(f"`{name}`", count // stages, count, *(f"{median(runs)[0]:.3g}" for runs in found))
    record.end_table()


def of_digits(data: Digits, epochs: int) -> Callable[[str, int, float, int], Run]:
    """Return a function that trains the convolutional network with a tableau."""

    def run(tableau: str, stages: int, lr: float, seed: int) -> Run:
        def make(model: nn.Module) -> Any:
            return uncertified(lambda: lmo(model, lr, tableau=tableau, exact=True))

        return train(make, data, epochs, seed, stages)

    return run


def of_regression(gradients: int) -> Callable[[str, int, float, int], Run]:
    """Return a function that trains a small network on noisy data with full gradients, without momentum."""

    def run(tableau: str, stages: int, lr: float, seed: int) -> Run:
        torch.manual_seed(seed)
        x = torch.randn(200, 10, device=DEVICE)
        y = torch.tanh(x @ torch.randn(10, 8, device=DEVICE)) @ torch.randn(8, 3, device=DEVICE)
        y = y + 0.5 * torch.randn_like(y)
        model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3)).to(DEVICE)
        optimizer = uncertified(
            lambda: LMO(model.parameters(), lr, radius=3.0, momentum=1.0, tableau=tableau, exact=True)
        )
        total = gradients // stages

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = mse_loss(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        for k in range(total):
            optimizer.param_groups[0]["lr"] = lr * (1 - k / total)
            optimizer.step(closure)
        with torch.no_grad():
            return Run([float(mse_loss(model(x), y))], 0.0, total * stages)

    return run


def gaps(data: Digits, epochs: int, record: Record) -> None:
    """Compare gaps of averages, of batches and of full gradients during a run, and print the table."""
    record.say(
        "**Gaps during a run** of `LMO` with learning rate 0.01. The gap for m is the mean of `last_gap.total` over "
        "the steps of an epoch. The other two belong to the weights after the epoch: the mean of the gaps of the "
        "gradients of all batches, and the gap of the gradient of the whole training loss:"
    )
    record.table("epoch", "training loss", "gap for m", "gap of batches", "full gap", "largest part of the full gap")
    rows: list[tuple[float, float, Gap]] = []
    steps: list[float] = []

    def gap_at(model: nn.Module, optimizer: Any, images: Tensor, classes: Tensor) -> Gap:
        optimizer.zero_grad()
        cross_entropy(model(images), classes).backward()  # type: ignore[no-untyped-call]
        return optimizer.gap()

    def after_epoch(model: nn.Module, optimizer: Any) -> None:
        batches = zip(data.x.split(BATCH), data.y.split(BATCH), strict=True)
        mean = np.mean([gap_at(model, optimizer, *batch).total for batch in batches])
        rows.append((float(np.mean(steps)), float(mean), gap_at(model, optimizer, data.x, data.y)))
        steps.clear()

    def make(model: nn.Module) -> Any:
        options = {"momentum": 0.1, "exact": True, "track_gap": True}
        named = [{"params": [(n, p)], "radius": scaled_radius(p, RADIUS)} for n, p in model.named_parameters()]
        optimizer = LMO(named, 0.01, **options)
        optimizer.register_step_post_hook(lambda own, *_: steps.append(own.last_gap.total))
        return optimizer

    run = train(make, data, epochs, 0, after_epoch=after_epoch)
    for epoch, (loss, (average, batches, full)) in enumerate(zip(run.losses, rows, strict=True), 1):
        if epoch in (1, 2, 4, 8, epochs):
            name = max(full.tensors, key=full.tensors.__getitem__)
            record.row(epoch, f"{loss:.2g}", f"{average:.3g}", f"{batches:.3g}", f"{full.total:.3g}", f"`{name}`")
    record.end_table()


def draw(runs: dict[tuple[str, float], list[Run]], path: Path) -> None:
    """Draw the losses of the best learning rate of each optimiser, and the final losses by learning rate."""
    with plt.rc_context({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharey=True)
        for name, (_, rates) in OPTIMISERS.items():
            finals = {lr: median(runs[name, lr])[0] for lr in rates}
            best = min(finals, key=finals.__getitem__)
            curves = np.array([run.losses for run in runs[name, best]])
            epochs = np.arange(1, curves.shape[1] + 1)
            left.fill_between(epochs, curves.min(0), curves.max(0), color=COLOURS[name], alpha=0.15, lw=0)
            left.semilogy(epochs, np.median(curves, 0), color=COLOURS[name], label=f"{name}, {best:g}")
            right.loglog(rates, [*finals.values()], "o-", color=COLOURS[name])
        left.set(xlabel="epoch", ylabel="training loss", title="best learning rate of each")
        right.set(xlabel="learning rate", title="loss after the last epoch")
        left.legend(frameon=False)
        figure.savefig(path, dpi=150, transparent=True)
        plt.close(figure)


def seconds(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer], shapes: list[tuple[int, int]], kind: Any
) -> float:
    """Return the median time of a step: processor time on one thread, or time of the GPU."""
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, device=DEVICE).to(kind) / math.sqrt(shape[1])) for shape in shapes]
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer = make(params)
    clock = time.perf_counter if DEVICE.type == "cuda" else time.process_time
    times = []
    for _ in range(60 if DEVICE.type == "cuda" else 15):
        wait()
        started = clock()
        optimizer.step()
        wait()
        times.append(clock() - started)
    return float(np.median(times[3:]))


def wait() -> None:
    """Wait until the GPU has nothing left to do."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def steps(record: Record) -> None:
    """Compare the time of a step with that of ``torch.optim.Muon``, for equal iterations in bfloat16."""
    large = (4096, 4096) if DEVICE.type == "cuda" else (1024, 1024)
    clock = "time of the GPU" if DEVICE.type == "cuda" else "processor time of one thread"
    record.say(
        f"**Time of a step**, {clock}, both with Newton-Schulz iterations in bfloat16, weight decay, and Nesterov's "
        "momentum or plain momentum. The ratio is the time of `LMO` divided by that of `torch.optim.Muon`. Weights of "
        "bfloat16 have a copy in float32 in `LMO` and none in `torch.optim.Muon`:"
    )
    record.table(
        "parameters", "type", "Nesterov", "`torch.optim.Muon`", "`LMO`", "ratio", "ratio with `track_gap`",
        "without `check_finite`",
    )  # fmt: skip
    shapes_of_rows = ([large], [(256, 256)] * 8, [(64, 64)] * 50)
    if DEVICE.type == "cuda":
        shapes_of_rows = (*shapes_of_rows, [(512, 512)] * 100, [(1024, 1024)] * 24)
    for shapes, kind, nesterov in product(shapes_of_rows, (torch.bfloat16, torch.float32), (True, False)):
        options = {"momentum": 0.05, "nesterov": nesterov, "weight_decay": 0.1, "constrained": False}
        options |= {"ns_dtype": "bfloat16"}
        muon = {"momentum": 0.95, "nesterov": nesterov, "weight_decay": 0.1}
        theirs = seconds(lambda p: torch.optim.Muon(p, 0.02, **muon), shapes, kind)  # noqa: B023
        ours, tracked, unchecked = (
            seconds(lambda p: LMO(p, 0.02, **options | more), shapes, kind)  # noqa: B023
            for more in ({}, {"track_gap": True}, {"check_finite": False})
        )
        record.row(
            f"{len(shapes)} of {shapes[0][0]} x {shapes[0][1]}", str(kind).removeprefix("torch."),
            "yes" if nesterov else "no", f"{1e3 * theirs:.1f} ms", f"{1e3 * ours:.1f} ms",
            f"{ours / theirs:.2f}", f"{tracked / theirs:.2f}", f"{unchecked / theirs:.2f}",
        )  # fmt: skip
    record.end_table()


def machine() -> str:
    if DEVICE.type == "cuda":
        return f"{torch.cuda.get_device_name()}, {processor()}"
    return f"{processor()}, one thread, no GPU"


def main() -> None:
    torch.set_num_threads(1)
    with Record("training", "torch", "scikit-learn", machine=machine()) as record:
        if DEVICE.type == "cuda":
            record.name = "training_gpu"
        if "--steps" in sys.argv:
            record.name += "_steps"
            steps(record)
            return
        data = digits()
        runs = compare(data, 8, SEEDS, record)
        task = f"the same network, batches of {BATCH}, momentum 0.1"
        tableaus(task, (3e-3, 1e-2, 3e-2, 1e-1), of_digits(data, 8), SEEDS, record)
        task = "regression of noisy data by a network with 16 hidden units, full gradients, no momentum"
        tableaus(task, (1e-2, 3e-2, 1e-1, 3e-1), of_regression(600), range(5), record)
        gaps(data, 16, record)
        steps(record)
        if "--write" in sys.argv and DEVICE.type == "cpu":
            draw(runs, FIGURE)


if __name__ == "__main__":
    on_one_thread()
    main()
