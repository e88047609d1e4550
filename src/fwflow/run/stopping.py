"""When is enough? The tolerances and limits of a run, and the sight of a run that can get no further."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fwflow._storage import storable
from fwflow._validation import number, positive, whole
from fwflow.points.point import Point, unmoved
from fwflow.run.trace import Trace

# So many steps in a row that move x by no more than rounding are the end of a run.
_STILL = 10
# And so many gaps in a row of which none is clearly smaller than the best before, once they are within rounding.
_IDLE = 5
# From a gap of this share of the first one on, every iterate is looked at; before, one of ever fewer.
_NEAR = 1e-4
# Fewer oracle calls than this are too few to tell how fast a run goes.
_MANY = 30


@dataclass(frozen=True)
class Limits:
    """What `minimize` was asked for: how exact, how far, how long."""

    tol: float
    rtol: float
    max_iter: int
    max_time: float

    @classmethod
    def checked(cls, tol: float, rtol: float, max_iter: int, max_time: float | None) -> Limits:
        """From arguments as users give them."""
        return cls(
            number(tol, "tol", "not be negative", lambda x: x >= 0),
            number(rtol, "rtol", "not be negative", lambda x: x >= 0),
            whole(max_iter, "max_iter", 0),
            math.inf if max_time is None else positive(max_time, "max_time"),
        )

    @property
    def wanted(self) -> bool:
        """Whether any tolerance is asked for; if none is, a run goes on to its limits."""
        return self.tol > 0 or self.rtol > 0

    def threshold(self, first_gap: float) -> float:
        """The gap at which to stop. A first gap that rounding made negative, or that is not known, says nothing."""
        return max(self.tol, self.rtol * first_gap if first_gap > 0 else 0.0)


def worth_a_look(k: int, gap: float, first_gap: float) -> bool:
    """Whether a run may be where rounding ends it: its gap is small, or it is time to look all the same."""
    return gap <= _NEAR * first_gap or k & (k - 1) == 0


@storable("progress", valid=lambda progress: min(progress.still, progress.idle) >= 0)
class Progress(NamedTuple):
    """How long a run has made none: steps that moved nothing, and gaps that were no better than the best."""

    still: int = 0
    idle: int = 0
    best_gap: float = math.inf

    def stepped(self, before: Point, after: Point, look: bool) -> Progress:
        """After a step, which is looked at on demand or if the last one moved nothing."""
        still = self.still + 1 if (look or self.still) and unmoved(before, after) else 0
        return self if still == self.still else Progress(still, self.idle, self.best_gap)

    def seen(self, gap: float) -> Progress:
        """After one more gap."""
        better = gap < 0.9 * self.best_gap
        return Progress(self.still, 0 if better else self.idle + 1, gap if better else self.best_gap)

    @property
    def stuck(self) -> bool:
        """x moves no more."""
        return self.still >= _STILL

    @property
    def exhausted(self) -> bool:
        """The gap falls no more, which counts where it is all rounding."""
        return self.idle >= _IDLE


def flat(trace: Trace, eps: float) -> bool:
    """Whether the last quarter of a run has changed f by no more than rounding, and found no smaller gap."""
    k = len(trace)
    recent = max(16, k // 4)
    if k < 2 * recent or k % max(16, k // 8):  # looked at now and then, for it takes a look at the whole trace
        return False
    values, gaps = trace["fun"][-recent:], trace["gap"]
    if not np.ptp(values) <= 8 * eps * np.abs(values).max():
        return False
    known, before = gaps[-recent:], gaps[:-recent]
    return bool(np.isfinite(known).any()) and not np.nanmin(known) < np.nanmin(before, initial=np.inf)


def crawled(trace: Trace) -> bool:
    """Whether the last third of many oracle calls has not brought the gap down tenfold."""
    calls, gaps = trace["n_lmo"], trace["gap"]
    late = calls > 2 / 3 * calls[-1]
    if calls[-1] < _MANY or late.all():
        return False
    return bool(np.nanmin(gaps[late], initial=np.inf) > 0.1 * np.nanmin(gaps[~late], initial=np.inf))
