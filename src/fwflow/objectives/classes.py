"""Probabilities of classes, from scores: a vector for the second of two classes, else one column per class."""

from __future__ import annotations

import numpy as np

from fwflow._validation import Array


def class_probabilities(scores: Array) -> Array:
    """Return the probabilities of the classes, one column per class."""
    Z = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
    E = np.exp(Z - Z.max(axis=1, keepdims=True))
    return np.asarray(E / E.sum(axis=1, keepdims=True))


def log_class_probabilities(scores: Array) -> Array:
    """Return the logarithms of the probabilities, one column per class."""
    if scores.ndim == 1:  # Logarithms near zero keep their digits.
        return np.stack([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)], axis=1)
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
