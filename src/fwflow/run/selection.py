"""Choice of a radius by held-out losses: the end of growing radii, and the rules."""

from __future__ import annotations

import numpy as np

from fwflow._validation import Array

#: Rules that choose a radius by its losses.
RULES = ("best", "1se")

# Radii grow until the losses of all folds did not fall over the last radii: those larger than the last one divided by
# the first number, and at least two. A fall is more than the second number times the decrease of the fold so far. Both
# chosen without tuning.
_BEYOND, _EPS = 2.0, 1e-3


def still_falls(radii: Array, losses: Array) -> bool:
    """Return whether the loss of some fold fell over the last radii.

    Parameters
    ----------
    radii : (n_radii,) array
        Radii so far, in ascending order.
    losses : (n_folds, n_radii) array
        Held-out losses.
    """
    earlier = min(int((radii <= radii[-1] / _BEYOND).sum()), len(radii) - 2)
    if earlier <= 0:
        return True
    before, after = losses[:, :earlier].min(axis=1), losses[:, earlier:].min(axis=1)
    return bool((before - after > _EPS * (losses[:, 0] - after)).any())


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
