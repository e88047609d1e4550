"""Choice of a radius by cross-validation: growing radii for all folds together, their end, and the rules."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fwflow._validation import Array, InputError, number, suggest, whole
from fwflow.run.paths import Trail, checked_radii

#: Rules that choose a radius by its losses.
RULES = ("best", "1se")
#: Tolerance of the models of folds, as a multiple of that of the models of all rows. With 20 000 rows, it changes mean
#: scores by less than a hundredth of their standard errors.
LOOSER = 100.0
#: Number of radii whose models of one fold follow each other if the data of a fold is costly to make or to send. The
#: models beyond the end of the search are not used. Chosen without tuning, as are the others.
BLOCK = 8
#: Default number of automatic radii in a range whose ends differ by the factor below.
N_RADII = 25

# Automatic radii increase by the first factor within ``n_radii`` radii, and at most by its power of the second number.
_FACTOR, _MOST = 1e3, 4
# First automatic radius if zero is a minimiser.
_SMALLEST = 1e-3
# Number of radii that are tried between the neighbours of the best one.
_REFINED = 6
# Radii grow until no fold improved over the last radii, those larger than the last one divided by the first number, or
# the means over the folds were above the smallest one by more than a standard error there. A fold improved if its loss
# fell by more than the second number times its decrease so far; that needs at least two radii.
_BEYOND, _EPS = 2.0, 1e-3


class FoldFit(NamedTuple):
    """Minimiser for a radius, and measures of the held-out rows; less is better.

    The first measure chooses the radius. The radii grow while one of them falls.
    """

    x: Any
    measures: tuple[float, ...]


class Fold(Protocol):
    """Rows that are held out, and all other rows, to which models are fitted."""

    def fits(self, radii: Array, known: Trail) -> list[FoldFit]:
        """Fit the models of ascending radii; `known` has minimisers of other radii."""


class Search(NamedTuple):
    """Radii that were tried, with their measures.

    Attributes
    ----------
    radii : (n_radii,) array
        Radii in ascending order.
    measures : (n_folds, n_radii, n_measures) array
        Measures of the held-out rows.
    means, errors, best : (n_radii,) array, (n_radii,) array, int
        The result of `best_radius` for the first measure.
    at_end : bool
        Whether the chosen radius is the first or the last one of given radii, or the last one of automatic radii that
        did not come to their end, so that other radii may be better.
    """

    radii: Array
    measures: Array
    means: Array
    errors: Array
    best: int
    at_end: bool


def check_rule(rule: Any, name: str) -> None:
    """Refuse a rule that is not known; `name` is the name of the argument."""
    if rule not in RULES:
        raise InputError(f"{name} is not known; {suggest(rule, RULES)}")


def search(
    advance: Callable[[Array, list[Trail]], Iterable[list[FoldFit]]],
    folds: int,
    radii: Any,
    first: Callable[[], float],
    *,
    n_radii: int = N_RADII,
    eps: float | None = None,
    rule: str = "best",
    block: int = 1,
    end: float = math.inf,
    announce: Callable[[int, int], None] = lambda left, total: None,
) -> Search:
    """Return the measures of radii, and the radius that a rule chooses.

    Parameters
    ----------
    advance : callable
        Function ``advance(radii, known)`` that returns the result of `Fold.fits` for every fold; ``known[k]`` are the
        minimisers of fold k that are next to the radii.
    folds : int
        Number of folds.
    radii : "auto" or array_like
        Radii. "auto" tries growing radii as long as `still_falls` is true for one of the measures, and then radii next
        to the best one.
    first : callable
        Function that returns the first automatic radius, or 0 if zero is a minimiser.
    n_radii : int
        Number of automatic radii in a range whose ends differ by a factor of 1000.
    eps : float, optional
        Smallest fall, as a share of the decrease of the measure so far; 0.001 by default.
    rule : {"best", "1se"}
        Rule of `best_radius`.
    block : int
        Number of automatic radii of one call of `advance`. The result does not depend on it.
    end : float
        Time after which no further radius is tried, as a value of ``time.monotonic``.
    announce : callable
        Function ``announce(left, total)`` that is called when the numbers of radii still to be tried, and of all radii,
        are known.
    """
    n_radii = whole(n_radii, "n_radii", 1)
    eps = number(_EPS if eps is None else eps, "eps", "be above 0 and at most 1", lambda x: 0 < x <= 1)
    automatic = isinstance(radii, str)
    if automatic and radii != "auto":
        raise InputError(f"radii={radii!r} is not known; give an array or 'auto'")
    if automatic:
        ladder = (first() or _SMALLEST) * np.geomspace(1.0, _FACTOR**_MOST, _MOST * n_radii + 1)
        ladder = ladder[np.isfinite(ladder)]
    else:
        ladder = np.unique(checked_radii(radii))
        block = max(block, len(ladder) if math.isinf(end) else 1)
        announce(len(ladder), len(ladder))
    found: dict[float, tuple[FoldFit, ...]] = {}

    def fit(radii: Array) -> None:
        order = sorted(found)
        near = order[max(bisect_left(order, radii[0]) - 2, 0) : bisect_left(order, radii[-1]) + 1]
        known: list[Trail] = [[(radius, found[radius][k].x) for radius in near] for k in range(folds)]
        found.update(zip(radii.tolist(), zip(*advance(radii, known), strict=True), strict=True))

    def measured(radii: Array) -> Array:
        return np.array([[fold.measures for fold in found[radius]] for radius in radii.tolist()]).swapaxes(0, 1)

    tried, falls = 0, True
    while tried < len(ladder) and falls:
        if ladder[tried] not in found:
            fit(ladder[tried : tried + block])
            if tried and time.monotonic() > end:
                break  # The last models may be unfinished.
        tried += 1
        chosen = ladder[:tried]
        falls = not automatic or any(still_falls(chosen, each, eps) for each in np.moveaxis(measured(chosen), 2, 0))
    chosen = ladder[:tried]
    if not falls and tried > 1:
        further = _next_to(chosen, best_radius(measured(chosen)[..., 0], rule)[2])
        announce(len(further), tried + len(further))
        fit(further)
        if time.monotonic() < end:
            chosen = np.union1d(chosen, further)
    measures = measured(chosen)
    means, errors, best = best_radius(measures[..., 0], rule)
    last = len(chosen) - 1
    at_end = falls and (best == last if automatic else last > 0 and best in (0, last))
    return Search(chosen, measures, means, errors, best, at_end)


def _next_to(radii: Array, best: int) -> Array:
    """Return radii between the neighbours of one radius, in equal numbers on both of its sides."""
    sides = [(i, i + 1) for i in (best - 1, best) if 0 <= i < len(radii) - 1]
    return np.concatenate([np.geomspace(radii[i], radii[j], _REFINED // len(sides) + 2)[1:-1] for i, j in sides])


def still_falls(radii: Array, losses: Array, eps: float = _EPS) -> bool:
    """Return whether the loss of some fold fell over the last radii, and their means are close to the smallest one.

    Parameters
    ----------
    radii : (n_radii,) array
        Radii so far, in ascending order.
    losses : (n_folds, n_radii) array
        Held-out losses.
    eps : float
        Smallest fall, as a share of the decrease of the fold so far.
    """
    earlier = min(int((radii <= radii[-1] / _BEYOND).sum()), len(radii) - 2)
    if earlier <= 0:
        return True
    means, errors, best = best_radius(losses, "best")
    if not means[radii > radii[-1] / _BEYOND].min() <= means[best] + errors[best]:
        return False
    before, after = losses[:, :earlier].min(axis=1), losses[:, earlier:].min(axis=1)
    return bool((before - after > eps * (losses[:, 0] - after)).any())


def best_radius(losses: Array, rule: str) -> tuple[Array, Array, int]:
    """Return the means over the folds, their standard errors, and the position of the radius that a rule chooses.

    Parameters
    ----------
    losses : (n_folds, n_radii) array
        Held-out losses. NaN stands for a fold without a loss.
    rule : {"best", "1se"}
        Smallest mean, or the smallest radius within one standard error of it.

    Returns
    -------
    means, errors, best : (n_radii,) array, (n_radii,) array, int
    """
    means = np.nanmean(losses, axis=0)
    counts = np.isfinite(losses).sum(axis=0)
    errors = np.nanstd(losses, axis=0) / np.sqrt(np.maximum(counts - 1, 1))
    best = int(means.argmin())
    if rule == "1se":
        best = int((means <= means[best] + errors[best]).argmax())
    return means, errors, best
