"""What do all runs of the catalogue return? Written to a file before a change, and compared after it.

``python benchmarks/frozen.py write FILE`` runs each set of ``tests/catalogue.py`` with each objective and each method,
which takes a few minutes on one core. ``python benchmarks/frozen.py compare FILE`` repeats the runs and prints those
that differ: another error, a worse status, values that contradict each other's gaps, a trace that differs by more
than rounding (for methods given by a formula), and other counts. It exits with 1 if there are any.
A part of a name after FILE, such as ``/rk44``, restricts the runs.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fwflow as fw
from fwflow.methods.catalogue import VARIANTS
from record import circumstances, on_one_thread

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.catalogue import COMBINATORIAL, OBJECTIVES, SETS, design, targets

Record = dict[str, Any]
#: Methods that solve restricted problems or choose among methods, so that their steps may change while results agree.
#: All others are given by a formula.
SOLVERS = ("auto", "corrective", "apg", "working-set", "polished", "flow", "sliding", "difference-of-convex")
#: name -> arguments of `minimize`
METHODS: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in ("auto", *fw.tableaus, *VARIANTS)},
    "fw, exact": {"method": "fw", "line_search": "exact"},
    "fw, aggressive": {"method": "fw", "line_search": "aggressive"},
    "fw, nesterov": {"method": "fw", "momentum": "nesterov"},
    "rk44, exact": {"method": "rk44", "line_search": "exact"},
}
#: Objectives over sets whose oracles take long.
FEW = ("squared", "logistic", "smooth")
STEPS, TOLERANCE = 25, 1e-6
#: The best status is the first one; an error comes after all.
RANKS = ("TOLERANCE", "PRECISION", "FINISHED", "ITERATIONS", "TIME", "NUMERICAL", "INCONSISTENT", "DATA", "error")
COUNTS = ("nit", "n_grad", "n_lmo", "n_design")
# Rounding of a trace, relative to the size of f and to the first gap: 25 steps amplify errors of 1e-16. A step that
# differs by more than rounding changes f by more than that, unless the run has converged.
ROUNDING = 1e-10


def matrices(shape: tuple[int, ...]) -> dict[str, Callable[[], fw.Objective]]:
    """Return the objectives of a matrix with that shape."""
    size = math.prod(shape)
    A, b = design(12, size), targets(12)
    rows, cols = np.nonzero(np.random.default_rng(sum(shape)).random(shape) < 0.6)

    def smooth() -> fw.Objective:
        return fw.Smooth(
            lambda X: float(np.sum((A @ X.ravel() - b) ** 2)) / 2,
            lambda X: (A.T @ (A @ X.ravel() - b)).reshape(X.shape),
            shape=shape,
        )

    def completion(loss: str) -> Callable[[], fw.Objective]:
        return lambda: fw.MatrixCompletion(rows, cols, targets(len(rows)), shape, loss=loss, rho=0.5)

    return {"matrix-smooth": smooth, "completion": completion("squared"), "completion-huber": completion("huber")}


def problems() -> Iterator[tuple[str, fw.ConstraintSet, Callable[[], fw.Objective]]]:
    for name, (C, shape) in (SETS | COMBINATORIAL).items():
        chosen = FEW if name in COMBINATORIAL else OBJECTIVES
        vectors = {f: lambda f=f, n=shape[0]: OBJECTIVES[f](n, 0) for f in chosen}
        for objective, make in (vectors if len(shape) == 1 else matrices(shape)).items():
            yield f"{name}/{objective}", C, make


def record(C: fw.ConstraintSet, f: fw.Objective, name: str) -> Record:
    try:
        r = fw.minimize(f, C, tol=TOLERANCE, max_iter=STEPS, **METHODS[name])
    except Exception as error:  # an error is an outcome too
        return {"status": "error", "error": re.sub(r"0x[0-9a-f]+", "0x", f"{type(error).__name__}: {error}")}
    found: Record = {"status": r.status.name, "success": r.success, "value": r.fun, "gap": r.gap}
    found["feasible"] = r.feasible is not False
    found |= {count: getattr(r, count) for count in COUNTS}
    if name not in SOLVERS:
        found |= {"values": r.trace["fun"].tolist(), "gaps": r.trace["gap"].tolist()}
    return found


def runs(part: str) -> dict[str, Record]:
    return {
        f"{problem}/{name}": record(C, make(), name)
        for problem, C, make in problems()
        for name in METHODS
        if part in f"{problem}/{name}"
    }


def moved(before: list[float], after: list[float], scale: float) -> bool:
    """Return whether two columns of a trace differ by more than rounding."""
    if len(before) != len(after):
        return True
    old, new = np.array(before), np.array(after)
    return not (np.isclose(old, new, rtol=0, atol=ROUNDING * scale, equal_nan=True)).all()


def differences(before: Record, after: Record) -> Iterator[tuple[str, str]]:
    """Yield the kinds of difference between two outcomes of a run, with a description."""
    if (before["status"] == "error") != (after["status"] == "error") or before.get("error") != after.get("error"):
        texts = [each.get("error", each["status"]) for each in (before, after)]
        yield "error", " -> ".join(texts)
        return
    if before["status"] == "error":
        return
    if RANKS.index(after["status"]) > RANKS.index(before["status"]) or before["success"] > after["success"]:
        yield "status", f"{before['status']}, {before['success']} -> {after['status']}, {after['success']}"
    values, gaps = (before["value"], after["value"]), np.nan_to_num([before["gap"], after["gap"]], nan=np.inf)
    size = 1 + max(map(abs, values))
    # The minimum lies between value - gap and value of a feasible point, so that the two intervals have a common point.
    inside = before["feasible"] and after["feasible"]
    if inside and not max(values[0] - gaps[0], values[1] - gaps[1]) <= min(values) + ROUNDING * size:
        yield "value", f"{values[0]!r}, gap {gaps[0]:.1e} -> {values[1]!r}, gap {gaps[1]:.1e}"
    if "values" in before and (
        moved(before["values"], after["values"], 1 + max(map(abs, before["values"])))
        or moved(before["gaps"], after["gaps"], 1 + np.nan_to_num(before["gaps"][0]))
    ):
        both = zip(before["values"], after["values"], strict=False)
        off = max((abs(old - new) for old, new in both), default=0.0)
        yield "trace", f"f differs by at most {off:.1e}; {len(before['values'])} -> {len(after['values'])} rows"
    if changed := [count for count in COUNTS if not math.isclose(before[count], after[count], rel_tol=1e-12)]:
        yield "counts", ", ".join(f"{count} {before[count]:g} -> {after[count]:g}" for count in changed)


def compare(stored: dict[str, Record], found: dict[str, Record]) -> int:
    """Print all differences, and return how many runs differ."""
    kinds, differ = Counter[tuple[str, str]](), 0
    for name in stored | found:
        if name not in stored or name not in found:
            lines = [("catalogue", "new run" if name in found else "no such run any more")]
        else:
            lines = list(differences(stored[name], found[name]))
        differ += bool(lines)
        for kind, text in lines:
            kinds[name.rpartition("/")[2], kind] += 1
            print(f"{name}: {kind}: {text}")
    for (method, kind), count in sorted(kinds.items()):
        print(f"{method:>25}  {kind:<10}{count:>6}")
    print(f"{differ} of {len(found)} runs differ")
    return differ


def main(command: str, path: str, part: str = "") -> int:
    started = time.perf_counter()
    warnings.simplefilter("ignore", fw.UncertifiedWarning)
    found = runs(part)
    print(f"{len(found)} runs in {time.perf_counter() - started:.0f} s")
    if command == "write":
        with gzip.open(path, "wt") as file:
            json.dump({"made": circumstances(()), "runs": found}, file)
        return 0
    with gzip.open(path, "rt") as file:
        stored = json.load(file)
    print("stored:", stored["made"])
    return compare({name: run for name, run in stored["runs"].items() if part in name}, found) > 0


if __name__ == "__main__":
    if sys.argv[1:2] not in (["write"], ["compare"]) or not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    on_one_thread()
    sys.exit(main(*sys.argv[1:]))
