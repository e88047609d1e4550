"""Where on a face is a quadratic smallest, and does the updated factor stay true?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwflow.methods.restricted.face import Face
from fwflow.objectives.quadratic_models import CoordinateModel, Model

seeds = st.integers(0, 2**32 - 1)


def model_of(kind, rng, n):
    """A model of some image space, and how to make the sides of a generator."""
    if kind == "losses":
        model = Model(rng.uniform(0.1, 2.0, n), rng.standard_normal(n))
        return model, lambda v: (v, v)
    B = rng.standard_normal((n + 2, n))
    return CoordinateModel(1.0, rng.standard_normal(n)), lambda v: (v, B.T @ (B @ v))


def assert_sound(face, point):
    """The factor is that of the curvatures, the values keep to their bounds, and the image is that of the point."""
    if face.keys:
        K = (face.left * face.model.second) @ face.right.T + face.shift
        np.testing.assert_allclose(face.factor.T @ face.factor, K, rtol=0, atol=1e-8 * np.abs(K).max())
        assert (np.tril(face.factor, -1) == 0).all()
    assert (face.values >= face.lower).all()
    assert (face.values <= face.upper).all()
    if face.affine:
        assert face.values.sum() == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(face.image, point, rtol=0, atol=1e-10 * (1 + np.abs(point).max()))


@pytest.mark.parametrize("kind", ["losses", "coordinates"])
@pytest.mark.parametrize("affine", [True, False])
@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    seed=seeds,
    moves=st.lists(st.sampled_from(["join", "join", "join", "copy", "drop", "minimise"]), min_size=1, max_size=25),
)
def test_the_factor_survives_any_sequence_of_moves(kind, affine, seed, moves):
    rng = np.random.default_rng(seed)
    n = 12
    model, sides = model_of(kind, rng, n)
    generators = [rng.standard_normal(n)]
    face = Face(model, affine, sides(generators[0])[1])
    face = face.joined(0, sides(generators[0]), 1.0) if affine else face
    bounds = (0.0, np.inf) if affine else (-1.0, 1.0)
    for move in moves:
        point = face.image
        if move in ("join", "copy"):
            again = move == "copy" and face.keys
            v = generators[rng.choice(face.keys)] if again else rng.standard_normal(n) * rng.choice([0.1, 1.0, 30.0])
            value = 0.0 if affine else rng.choice([-1.0, 0.0, 1.0])
            generators.append(v)
            face = face.joined(len(generators) - 1, sides(v), value, *bounds)
        elif move == "drop":
            free = [i for i, value in enumerate(face.values) if value == 0 or not affine]
            if free:
                i = int(rng.choice(free))
                face = face.without(i, float(face.values[i]))
        else:
            before, face = face, face.minimised()
            after = dict(face.dropped) | dict(zip(face.keys, face.values, strict=True))
            assert after.keys() == set(before.keys)
            assert all(value in bounds for _, value in face.dropped)
            steps = [after[key] - old for key, old in zip(before.keys, before.values, strict=True)]
            point = point + sum(step * sides(generators[key])[1] for key, step in zip(before.keys, steps, strict=True))
            assert_smallest(face)
            # What a quadratic gains is the mean of its slopes at both ends.
            slopes = model.second * (before.image + face.image) / 2 - model.pull
            gain = sum(step * (generators[key] @ slopes) for key, step in zip(before.keys, steps, strict=True))
            assert gain <= 1e-12 * (1 + np.abs(slopes).max() * face.longest)
        assert_sound(face, point)


def assert_smallest(face):
    """Within the face no direction goes down: derivatives vanish, or agree where the sum is kept."""
    if len(face.keys) > face.affine:
        slopes = face.left @ (face.model.second * face.image - face.model.pull)
        off = np.ptp(slopes) if face.affine else np.abs(slopes).max()
        assert off <= 1e-9 * (1 + face.longest * np.abs(face.image).max())


def test_a_face_without_bounds_in_the_way_is_minimised_as_linear_algebra_would():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((6, 4)).T  # four generators of dimension six
    model, weights = Model(rng.uniform(0.5, 2.0, 6), np.zeros(6)), rng.dirichlet(np.ones(4))
    z = weights @ V
    face = Face(Model(model.second, model.second * z), True, V[0]).joined(0, (V[0], V[0]), 1.0)
    for key in (1, 2, 3):
        face = face.joined(key, (V[key], V[key]))
    found = face.minimised()
    np.testing.assert_allclose(found.values, weights, rtol=0, atol=1e-12)
    assert found.dropped == ()
    loose = Face(Model(model.second, model.second * z), False, np.zeros(6))
    for key in range(4):
        loose = loose.joined(key, (V[key], V[key]), 0.0, -10.0, 10.0)
    solved = np.linalg.lstsq(np.sqrt(model.second)[:, None] * V.T, np.sqrt(model.second) * z, rcond=None)[0]
    np.testing.assert_allclose(loose.minimised().values, solved, rtol=0, atol=1e-12)
