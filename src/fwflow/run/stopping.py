"""Tolerances and limits of a run, and signs that a run makes no further progress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fwflow._storage import storable
from fwflow._validation import number, positive, whole
from fwflow.points.point import Point
from fwflow.run.trace import Trace

# Number of steps in a row that move x by no more than rounding, after which a run ends. Chosen without tuning, as are
# the others.
MAX_STILL = 10
# Number of gaps in a row, none clearly smaller than before, after which a run ends if its gap is within rounding.
MAX_IDLE = 5
# Smallest number of oracle calls from which the speed of a run is estimated.
_MIN_CALLS = 30


@dataclass(frozen=True)
class Limits:
    """Tolerances and limits of `minimize`."""

    tol: float
    rtol: float
    max_iter: int
    max_time: float

    @classmethod
    def checked(cls, tol: float, rtol: float, max_iter: int, max_time: float | None) -> Limits:
        """Check the arguments of `minimize`."""
        return cls(
            number(tol, "tol", "not be negative", lambda x: x >= 0),
            number(rtol, "rtol", "not be negative", lambda x: x >= 0),
            whole(max_iter, "max_iter", 0),
            math.inf if max_time is None else positive(max_time, "max_time"),
        )

    @property
    def wanted(self) -> bool:
        """Whether a tolerance is positive; if not, a run continues to its limits."""
        return self.tol > 0 or self.rtol > 0

    def threshold(self, scale: float) -> float:
        """Return the gap at which to stop. A scale that is negative by rounding, or NaN, is ignored."""
        return max(self.tol, self.rtol * scale if scale > 0 else 0.0)


@storable("progress", valid=lambda progress: min(progress.still, progress.idle) >= 0)
class Progress(NamedTuple):
    """Numbers of steps that did not move x, and of gaps since the smallest one, each without interruption."""

    still: int = 0
    idle: int = 0
    best_gap: float = math.inf

    def stepped(self, before: Point, after: Point, check: bool) -> Progress:
        """Return the counts after a step, which is compared if `check` is set or if the last step did not move x."""
        still = self.still + 1 if (check or self.still) and after.unmoved_from(before) else 0
        return self if still == self.still else Progress(still, self.idle, self.best_gap)

    def seen(self, gap: float) -> Progress:
        """Return the counts after one more gap."""
        better = gap < 0.9 * self.best_gap
        return Progress(self.still, 0 if better else self.idle + 1, gap if better else self.best_gap)


def flat(trace: Trace, eps: float) -> bool:
    """Return whether the last quarter of a run changed f by no more than rounding, and found no smaller gap."""
    k = len(trace)
    recent = max(16, k // 4)
    if k < 2 * recent or k % max(16, k // 8):  # not at every iterate, since it reads the whole trace
        return False
    values, gaps = trace["fun"][-recent:], trace["gap"]
    if not np.ptp(values) <= 8 * eps * np.abs(values).max():
        return False
    known, before = gaps[-recent:], gaps[:-recent]
    return bool(np.isfinite(known).any()) and not np.nanmin(known) < np.nanmin(before, initial=np.inf)


def slow(trace: Trace) -> bool:
    """Return whether the last third of the oracle calls reduced the gap by less than a factor of ten."""
    calls, gaps = trace["n_lmo"], trace["gap"]
    late = calls > 2 / 3 * calls[-1]
    if calls[-1] < _MIN_CALLS or late.all():
        return False
    return bool(np.nanmin(gaps[late], initial=np.inf) > 0.1 * np.nanmin(gaps[~late], initial=np.inf))
