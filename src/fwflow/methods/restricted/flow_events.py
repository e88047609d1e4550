"""Minimisers of a quadratic model over a working set, found by following its flow from event to event."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, first_below
from fwflow._validation import Array
from fwflow.methods.clock import Late, never
from fwflow.methods.restricted.face import Face
from fwflow.methods.restricted.simplices import minimise_on_simplices
from fwflow.methods.restricted.working_set import WorkingSet
from fwflow.objectives.quadratic_models import CoordinateModel, Model

_EPS = float(np.finfo(np.float64).eps)


def minimise_quadratic(K: Array, working: WorkingSet, values: Array, slopes: Array, late: Late = never) -> Array:
    """Return the values that minimise the quadratic with Hessian K and the given derivatives at `values`."""
    if working.starts is not None:
        return minimise_on_simplices(K, slopes, values, working.starts, late=late)
    units = np.eye(len(K)) if len(K) <= 500 else sp.eye_array(len(K)).tocsr()
    return minimise_model(CoordinateModel(1.0, dot(K, values) - slopes), working, units, K, 0.0, values, slopes, late)


def minimise_model(
    model: Model,
    working: WorkingSet,
    left: Any,
    right: Array,
    fixed: Any,
    values: Array,
    slopes: Array,
    late: Late = never,
) -> Array:
    """Return the values at which the flow of a model ends, or those it has reached when `late` is true.

    The flow starts at `values`, where the model has the derivatives `slopes`.
    """
    moving = (values > working.lower) & (values < working.upper)
    base = fixed + dot(np.where(moving, 0.0, values), right)
    columns = (values, working.lower, working.upper, left, right)
    face = Face.spanned(model, working.affine, base, np.flatnonzero(moving), columns).minimised(late)
    for _, target in islice(events(working, left, right, face, values, slopes, late), 10 * len(values) + 100):
        values = target
    return values


def events(
    working: WorkingSet, left: Any, right: Array, face: Face, values: Array, slopes: Array, late: Late = never
) -> Iterator[tuple[Face, Array]]:
    """Yield the faces on which the flow of a model moves, in order, and the minimiser on each of them.

    While the same generators move, the flow heads for the minimum on their face, and the derivatives change linearly.
    The first other generator whose derivative becomes as good joins the face. The flow ends where no generator does,
    or when `late` is true.
    """
    model, rigid = face.model, working.upper <= working.lower
    sizes = abs(left)
    while True:
        target = values.copy()
        for key, bound in face.dropped:
            target[key] = bound
        target[list(face.keys)] = face.values
        yield face, target
        if late():
            return
        ahead = dot(left, model.second * face.image - model.pull)
        slack = working.slack(ahead, target)
        slack[list(face.keys)] = np.inf
        slack[rigid] = np.inf
        terms = 1e-14 * np.abs(model.second * face.image - model.pull) + _EPS * face.terms
        noise = dot(sizes, terms) + 1e-14 * np.abs(slopes)
        if working.affine:  # the multipliers are differences to a common level, which is rounded too
            noise += float(dot(noise, target))
        event = first_below(working.slack(slopes, target), slack, noise)
        if event is None:
            return
        theta, i = event
        row = left[i] if isinstance(left, np.ndarray) else left[[i]].toarray()[0]
        sides = (row, row if right is left else right[i])
        face = face.joined(i, sides, float(target[i]), float(working.lower[i]), float(working.upper[i]))
        face = face.minimised(late)
        if face.dropped[:1] == ((i, target[i]),):  # the generator did not move, so the event was a rounding error
            return
        values, slopes = target, (1 - theta) * slopes + theta * ahead
