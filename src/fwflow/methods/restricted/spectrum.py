"""Sets of matrices that are given by their singular values or eigenvalues, for corrections within a span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Problem
from fwflow.objectives.completion import MatrixCompletion
from fwflow.sets.base import ConstraintSet, SpectralRange
from fwflow.sets.vectors import L1Ball, Simplex


@dataclass(frozen=True)
class Spectrum(SpectralRange):
    """Spectrum of the members of a set, with projections onto it."""

    @classmethod
    def of(cls, C: ConstraintSet) -> Spectrum | None:
        """Return the spectrum of a set, or None if the set does not provide it."""
        return None if C.spectrum is None else cls(**vars(C.spectrum))

    def gradient(self, f: MatrixCompletion, image: Array) -> Any:
        """Return the gradient at a matrix with these observed entries, restricted to the space of the members."""
        return self.restricted(f.gradient_matrix(image))

    def restricted(self, G: Any) -> Any:
        """Return a matrix, or its symmetric part if all members are symmetric."""
        return (G + G.T) * G.dtype.type(0.5) if self.sign else G

    def project(self, M: Array) -> Array:
        """Return the nearest matrix with an admissible spectrum, by projecting the values."""
        if self.sign:
            values, W = np.linalg.eigh(self.sign * self.restricted(M))
            return dot(self.sign * (W * self._projected(values)), W.T)
        left, sigma, right = np.linalg.svd(M, full_matrices=False)
        return dot(left * self._projected(sigma), right)

    def _projected(self, values: Array) -> Array:
        largest = values.max()
        if self.exact or largest > self.radius:
            # Subtracting a constant from all values does not change the projection and avoids large numbers.
            values = values - largest + values.dtype.type(self.radius)
        if self.exact:
            return Simplex(self.radius).project(values)
        return L1Ball(self.radius).project(np.maximum(values, 0))

    def factors(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Return the factors of a member; those of a symmetric one are equal up to the sign."""
        return (A, self.sign * A) if self.sign else (A, B)


def correctable(problem: Problem) -> bool:
    """Return whether corrections within the span of the factors are possible."""
    return problem.objective.completion is not None and Spectrum.of(problem.constraint) is not None
