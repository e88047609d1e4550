"""One of the processes that share the tensors of `test_torch`: it writes what its optimisers did as JSON.

    python -m tests.neighbours.ranks RANK FOLDER

Every process computes the answers for whole tensors as well. The processes meet in a file of the folder.
"""

import copy
import datetime
import json
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import fwflow as fw
from fwflow.torch import LMO, GapStop
from tests.neighbours import recursion

RANKS = 2
#: Shapes of meshes of processes, and the placements along their axes.
PLACES = {
    "rows": ((RANKS,), [Shard(0)]),
    "columns": ((RANKS,), [Shard(1)]),
    "copies": ((RANKS,), [Replicate()]),
    "copies of rows": ((RANKS, 1), [Replicate(), Shard(0)]),
    "two axes": ((1, RANKS), [Shard(0), Shard(1)]),
}
SETS = {**{name: name for name in recursion.FORMULAS}, "set": fw.LInfBall(1.0), "callable": lambda m: -torch.sign(m)}
# The first has an odd number of rows, and the second leaves a process with nothing.
SHAPES = [(5, 4), (1, 2), (5, 4), (2, 2, 3)]


def whole(x):
    return x.full_tensor() if isinstance(x, torch.distributed.tensor.DTensor) else x


def weights(place, kind):
    """The parameters of a run, whole if no place is given."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64).to(kind) for shape in SHAPES]
    if place is not None:
        shape, placements = PLACES[place]
        mesh = init_device_mesh("cpu", shape)
        tensors = [distribute_tensor(w, mesh, placements) for w in tensors]
    return [torch.nn.Parameter(w) for w in tensors]


def steps(parameters, count=10, stop=None, **options):
    """Weights and gaps of a run on a sum of squares."""
    optimizer, gaps = LMO(parameters, 0.05, radius=2.0, track_gap=True, **options), []

    def closure():
        for p in parameters:
            p.grad = p.detach() - 1

    for _ in range(count):
        optimizer.step(closure)
        gaps.append(optimizer.last_gap.total)
        if stop is not None and stop(gaps[-1]):
            break
    return [whole(p.detach()).tolist() for p in parameters], [*gaps, optimizer.gap().total]


def raised(parameters, rank):
    """The error for a gradient that is not finite in one process."""
    optimizer = LMO(parameters, 0.1)
    for p in parameters:
        p.grad = torch.ones_like(p)
    if rank == 1:
        parameters[2].grad.to_local().fill_(math.nan)
    before = [whole(p.detach()).clone() for p in parameters]
    try:
        optimizer.step()
    except ValueError as error:
        unchanged = all(torch.equal(whole(p.detach()), w) for p, w in zip(parameters, before, strict=True))
        return str(error) if unchanged else "the weights changed"
    return "no error"


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()


def trained(model, optimizer, data, count):
    for _ in range(count):
        optimizer.zero_grad()
        (model(data) ** 2).mean().backward()
        optimizer.step()
    return [whole(p.detach()).tolist() for p in model.parameters()]


def main(rank, folder):
    dist.init_process_group(
        "gloo", f"file://{folder}/meeting", rank=rank, world_size=RANKS, timeout=datetime.timedelta(seconds=60)
    )
    runs = {}
    cases = {f"{name}, rows": ("rows", torch.float64, {"set": C, "exact": True}) for name, C in SETS.items()}
    cases |= {f"spectral, {place}": (place, torch.float64, {"exact": True}) for place in PLACES}
    cases |= {
        "newton-schulz": ("rows", torch.float32, {}),
        "bfloat16": ("rows", torch.bfloat16, {"exact": True}),
        "stages": ("rows", torch.float64, {"tableau": "rk44", "exact": True}),
    }
    for label, (place, kind, options) in cases.items():
        runs[label] = [steps(weights(own, kind), **options) for own in (place, None)]
    stopped = {"count": 500, "exact": True, "momentum": 1.0}
    runs["stopped"] = [steps(weights(own, torch.float64), stop=GapStop(rtol=0.5), **stopped) for own in ("rows", None)]

    # Each process has one half of the data, and the network without shards has both halves.
    data = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(8, 3)
    sharded, plain, mesh = network(), network(), init_device_mesh("cpu", (RANKS,))
    fully_shard(sharded, mesh=mesh)
    first, second = (LMO(model.parameters(), 0.05, track_gap=True) for model in (sharded, plain))
    pair = [trained(sharded, first, data[4 * rank : 4 * rank + 4], 5), trained(plain, second, data, 5)]
    runs["fully_shard"] = [(w, [o.last_gap.total]) for w, o in zip(pair, (first, second), strict=True)]
    saved = get_optimizer_state_dict(sharded, first)
    again = copy.deepcopy(plain)
    fully_shard(again, mesh=mesh)
    third = LMO(again.parameters(), 0.05, track_gap=True)
    set_optimizer_state_dict(again, third, saved)
    pair = [trained(again, third, data[4 * rank : 4 * rank + 4], 5), trained(plain, second, data, 5)]
    runs["checkpoint"] = [(w, [o.last_gap.total]) for w, o in zip(pair, (third, second), strict=True)]

    errors = {place: raised(weights(place, torch.float32), rank) for place in ("rows", "columns", "two axes")}
    Path(folder, f"{rank}.json").write_text(json.dumps({"runs": runs, "errors": errors}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
