"""State files hold data, not code: what is written comes back to the last bit, and everything else is refused."""

import ast
import copy
import hashlib
import inspect
import io
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fwflow as fw
from fwflow import _storage as storage
from fwflow._storage import archive, files
from fwflow._storage.registry import by_class, by_name
from fwflow.methods.newton_flow import Sliding
from fwflow.methods.restricted.atoms import Atoms
from fwflow.objectives import screening
from fwflow.points.gradients import DenseGradient, Sampled
from fwflow.points.point import Atom, Lifted, Point
from fwflow.points.vertices import SparseVertex
from fwflow.run.trace import Trace
from fwflow.semidefinite.program import Factor
from fwflow.steps.momentum import momenta
from fwflow.steps.searches import line_searches
from tests.catalogue import ACTIVE_SET, MATRIX_OBJECTIVES, OBJECTIVES, SELF_STEPPING, SETS, STAGED, design, targets

PACKAGE = Path(fw.__file__).parent


# What is written comes back.


def bits(array):
    return array.dtype.str, array.shape, array.tobytes()


def assert_same_data(one, other, where="state"):
    """Equal to the last bit, through containers, arrays and registered objects."""
    assert type(one) is type(other), where
    if type(one) in by_class:
        for name in by_class[type(one)].attributes:
            assert_same_data(getattr(one, name), getattr(other, name), f"{where}.{name}")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same_data(a, b, f"{where}[{i}]")
    elif isinstance(one, dict):
        for pair in zip(one.items(), other.items(), strict=True):
            assert_same_data(*pair, where)
    elif isinstance(one, np.ndarray):
        assert bits(one) == bits(other), where
        assert (one.flags.c_contiguous, one.flags.f_contiguous) == (other.flags.c_contiguous, other.flags.f_contiguous)
        assert one.flags.writeable == other.flags.writeable, where
    elif isinstance(one, float | np.floating):
        assert np.float64(one).tobytes() == np.float64(other).tobytes() or (one != one and other != other), where
    else:
        assert one == other, where


def through_a_file(value, path):
    storage.save(value, path)
    return storage.load(path, type(value))


def quadratic_on(shape):
    rng = np.random.default_rng(3)
    h, b = rng.uniform(0.5, 2, shape), 2 * rng.standard_normal(shape)
    return fw.Smooth(
        lambda x: float((h * (x - b) ** 2).sum()) / 2,
        lambda x: h * (x - b),
        smoothness=2.0,
        shape=shape,
        hess_product=lambda x, v: h * v,
    )


def completion_on(shape):
    rng = np.random.default_rng(4)
    rows, cols = np.nonzero(np.ones(shape))
    seen = rng.permutation(len(rows))[: 2 * len(rows) // 3]
    return fw.MatrixCompletion(rows[seen], cols[seen], 3 * rng.standard_normal(len(seen)), shape, rho=1.0)


def objectives_on(name, shape):
    made = {"curved": lambda: quadratic_on(shape)}
    if len(shape) == 1:
        made |= {kind: lambda make=make: make(shape[0], 5) for kind, make in OBJECTIVES.items()}
    else:
        made |= {kind: lambda make=make: make(shape, 5) for kind, make in MATRIX_OBJECTIVES.items()}
    return made | ({"completion": lambda: completion_on(shape)} if name.startswith("nuclear") else {})


METHODS = (*fw.tableaus, *ACTIVE_SET, *SELF_STEPPING, *STAGED)
SEARCHES, AVERAGES = (None, *line_searches), (None, *momenta)
STEPS, SPLIT = 7, 3
# What differs between a run and one that is continued: time, and the evaluation at the split.
LEFT_OUT = {"elapsed": 0.0, "counts": None, "trace": None, "origin": None}


def options_of(method, number):
    """Every method with every line search and momentum that it takes, one after the other."""
    if method in SELF_STEPPING:
        return {"method": method}
    search = SEARCHES[number % len(SEARCHES)]
    if method in ACTIVE_SET or method in STAGED:
        return {"method": method, "line_search": search}
    return {"method": method, "line_search": search, "momentum": AVERAGES[number % len(AVERAGES)]}


def saver(path, k):
    return lambda state: state.save(path) if state.k == k else None


def continued_run(make, C, x0, path, options):
    """A run, and the same run continued from a file that it wrote on the way; None if the method does not fit."""
    path.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.UncertifiedWarning)
        try:
            whole = fw.minimize(make(), C, x0, tol=0, max_iter=STEPS, callback=saver(path, SPLIT), **options)
        except ValueError as error:
            if "need" not in str(error) and "does not support" not in str(error):
                raise
            return None
        if whole.nit < SPLIT:  # the flow may come to its end before
            whole.state.save(path)
        rest = fw.minimize(make(), C, tol=0, max_iter=STEPS - SPLIT, state=fw.State.load(path), **options)
    return whole, rest


def assert_continued(whole, rest):
    for column in ("fun", "gap", "step"):
        np.testing.assert_array_equal(rest.trace[column], whole.trace[column])
    for column in ("n_grad", "n_lmo", "n_design"):  # the evaluation at the split is made twice, and the rest once
        # The image of a sparse start is a share of a pass, and sums of shares are rounded.
        more = (rest.trace[column] - whole.trace[column])[SPLIT + 1 :].round(9).tolist()
        assert set(more) <= ({0, 1} if column == "n_lmo" else {0, 1, 2})
        # The product with the shift of a translated set is made once per objective, when it is needed.
        assert len(set(more)) <= 1 or (column == "n_design" and more == sorted(more))
    assert (rest.fun, rest.gap, rest.status) == (whole.fun, whole.gap, whole.status)
    assert_same_data(vars(replace(rest.state, **LEFT_OUT)), vars(replace(whole.state, **LEFT_OUT)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", METHODS)
def test_runs_continue_bit_for_bit(method, tmp_path):
    tried, done = set(), set()
    for number, (name, (C, shape)) in enumerate(SETS.items(), METHODS.index(method)):
        kinds = objectives_on(name, shape)
        options = options_of(method, number)
        for i in range(len(kinds)):
            kind = [*kinds][(number + i) % len(kinds)]
            runs = continued_run(kinds[kind], C, C.start(shape), tmp_path / "state", options)
            tried |= {kind, *options.values()}
            if runs is not None:
                assert_continued(*runs)
                done.add(name)
                break
    assert set(OBJECTIVES) <= tried
    assert tried & set(MATRIX_OBJECTIVES)  # the sets of matrices are fewer, so that the methods share them
    assert method in SELF_STEPPING or set(SEARCHES) <= tried
    assert method not in fw.tableaus or set(AVERAGES) <= tried
    # Only these ask for more of a set than its oracle, or for an objective that few sets go with here.
    few = ("flow", "apg", "polished", "working-set", "decomposition-invariant", "block", "stochastic")
    assert method in few or set(SETS) <= done
    assert done or method == "decomposition-invariant"


IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
import fwflow as fw
from tests.storage.test_state_files import ELSEWHERE
for number, (make, C, options) in enumerate(ELSEWHERE):
    folder = Path(sys.argv[1])
    state = fw.State.load(folder / f"half-{number}")
    fw.minimize(make(), C, tol=0, max_iter=60, state=state, **options).state.save(folder / f"rest-{number}")
"""


def linear(dtype=np.float64):
    return fw.LinearModel(design(40, 60).astype(dtype), targets(40).astype(dtype), "huber")


ELSEWHERE = [
    (linear, fw.L1Ball(2.0), {"method": "rk44", "momentum": "nesterov", "line_search": "adaptive"}),
    (linear, fw.L1Ball(2.0), {"method": "lazy-blended-pairwise"}),
    (lambda: linear(np.float32), fw.Simplex(), {"method": "corrective"}),
    (lambda: fw.LinearModel(design(40, 60), targets(40)), fw.L1Ball(2.0), {"method": "flow"}),
    (lambda: completion_on((20, 12)), fw.NuclearBall(9.0), {"method": "fw", "momentum": "gradient-averaging"}),
    (lambda: completion_on((20, 12)), fw.NuclearBall(9.0), {"method": "corrective"}),
    (lambda: quadratic_on((3, 3)), fw.Birkhoff(3), {"method": "heun", "schedule": fw.OpenLoop(c=4.0)}),
]


def test_runs_continue_in_another_process(tmp_path):
    whole = []
    for number, (make, C, options) in enumerate(ELSEWHERE):
        save = saver(tmp_path / f"half-{number}", 7)
        whole.append(fw.minimize(make(), C, tol=0, max_iter=67, callback=save, **options))
    # Variables of BLAS choose its kernels, and other kernels round differently.
    environment = os.environ | {"PYTHONPATH": f"{PACKAGE.parent}:{Path(__file__).parents[2]}", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS, tmp_path], env=environment, check=True, timeout=300)
    for number, r in enumerate(whole):
        rest = fw.State.load(tmp_path / f"rest-{number}")
        assert rest.origin.differs_from(r.state.origin) is None
        assert_same_data(vars(replace(rest, **LEFT_OUT)), vars(replace(r.state, **LEFT_OUT)))
        for column in ("fun", "gap", "step"):
            np.testing.assert_array_equal(rest.trace[column], r.trace[column])


def test_polished_runs_continue_where_weights_are_corrected(tmp_path):
    run = {"method": "polished", "tol": 0}
    save = saver(tmp_path / "state", 22)
    whole = fw.minimize(linear(), fw.L1Ball(0.2), max_iter=25, callback=save, **run)
    half = fw.State.load(tmp_path / "state")
    assert half.memory.trial.current == 1
    rest = fw.minimize(linear(), fw.L1Ball(0.2), max_iter=3, state=half, **run)
    assert_same_data(vars(replace(rest.state, **LEFT_OUT)), vars(replace(whole.state, **LEFT_OUT)))


@pytest.mark.parametrize("C", [fw.Simplex(), fw.Box(-1.0, 1.0)], ids=["vertices", "box"])
def test_the_flow_of_other_losses_continues(C, tmp_path):
    run = {"method": Sliding(tau_end=2.0, step_length=0.2), "tol": 0}
    whole = fw.minimize(OBJECTIVES["logistic"](6, 0), C, max_iter=10, callback=saver(tmp_path / "state", 4), **run)
    half = fw.State.load(tmp_path / "state")
    assert half.memory.events
    rest = fw.minimize(OBJECTIVES["logistic"](6, 0), C, max_iter=6, state=half, **run)
    assert_same_data(vars(replace(rest.state, **LEFT_OUT)), vars(replace(whole.state, **LEFT_OUT)))


@pytest.mark.parametrize("momentum", momenta)
def test_screened_runs_continue_from_a_file_as_from_memory(momentum, monkeypatch, tmp_path):
    monkeypatch.setattr(screening, "LEAST_COST", 0)
    monkeypatch.setattr(screening, "LEAST_COST_PER_COLUMN", 0)
    f, C, run = linear(), fw.L1Ball(2.0), {"method": "heun", "momentum": momentum, "tol": 0, "max_iter": 12}
    half = fw.minimize(f, C, **run).state
    half.save(tmp_path / "state")
    assert ('"lazy-gradient"' in parts_of((tmp_path / "state").read_bytes())["state.json"].decode()) == (
        momentum != "lmo-averaging"
    )
    from_file = fw.minimize(f, C, state=fw.State.load(tmp_path / "state"), **run)
    from_memory = fw.minimize(f, C, state=half, **run)
    assert_same_data(vars(replace(from_file.state, **LEFT_OUT)), vars(replace(from_memory.state, **LEFT_OUT)))
    for column in ("fun", "gap", "step"):
        np.testing.assert_array_equal(from_file.trace[column], from_memory.trace[column])


def kinds_of(cls):
    return {cls, *(kind for inner in cls.__subclasses__() for kind in kinds_of(inner))}


@pytest.mark.parametrize("base", [fw.Vertex, Atom, fw.Gradient])
def test_every_kind_of_the_package_can_be_stored(base):
    kinds = {cls for cls in kinds_of(base) if cls.__module__.startswith("fwflow.") and not inspect.isabstract(cls)}
    kinds.discard(Factor)  # runs of semidefinite programs do not continue from files
    assert kinds <= by_class.keys()


def test_scores_of_vertices_round_as_before():
    rng = np.random.default_rng(0)

    def vertex(width):
        return Lifted(SparseVertex(rng.permutation(50)[:width], rng.standard_normal(width), (50,)))

    g = DenseGradient(rng.standard_normal(50))
    atoms = Atoms([vertex(9), *(vertex(7) for _ in range(40)), vertex(9)])
    g.scores(atoms)
    # The first vertex, of whose size the others are stacked, goes; those of the second one's size stay apart.
    grown = atoms.kept(np.arange(42) > 0).joined(vertex(9) for _ in range(40))
    again = round_trip(grown)
    assert g.scores(again).tobytes() == g.scores(grown).tobytes()
    assert g.scores(Atoms(grown)).tobytes() != g.scores(grown).tobytes()


def test_looking_at_a_gap_again_is_no_lack_of_progress():
    f, C = fw.LinearModel(design(20, 6), targets(20)), fw.L1Ball(1.0)
    seen = []
    fw.minimize(f, C, tol=0, max_iter=12, method="fw", callback=lambda state: seen.append(state.progress))
    assert any(progress.idle for progress in seen)
    state = fw.minimize(f, C, tol=0, max_iter=0, method="fw").state
    for progress in seen[1:]:
        state = fw.minimize(f, C, tol=0, max_iter=1, method="fw", state=state).state
        assert state.progress == progress


@storage.storable("test-memory", valid=lambda memory: memory.seen >= 0)
@dataclass(frozen=True, eq=False)
class Memory:
    values: Any = None
    seen: int = 0
    names: Sequence[str] = ()
    modes: tuple[Literal["slow", "fast"], ...] = ()
    cache: dict = field(default_factory=dict, init=False)


@storage.storable("test-pair")
class Pair(NamedTuple):
    left: Any
    right: Any


def layouts(array, how):
    """The same numbers in another layout."""
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "reversed" and array.ndim:
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if how == "strided" and array.ndim:
        return np.repeat(array, 3, axis=-1)[..., ::3]
    if how == "part":
        return np.pad(array, 2)[tuple(slice(2, -2) for _ in array.shape)]
    if how == "transposed":
        return np.ascontiguousarray(array.T).T
    return array


arrays = st.builds(
    lambda array, how, write: (layouts(array, how), write),
    hnp.arrays(st.sampled_from(archive.TYPES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    st.sampled_from(["c", "fortran", "reversed", "strided", "part", "transposed"]),
    st.booleans(),
).map(lambda drawn: (np.asarray(drawn[0]), drawn[1]))


@given(arrays)
@settings(deadline=None, max_examples=150, derandomize=True)
def test_arrays_come_back_as_they_are(drawn):
    array, write = drawn
    array.setflags(write=write)
    again = round_trip(array)
    assert_same_data(again, array)
    long = np.array(array.shape) > 1
    assert not array.size or (np.sign(array.strides)[long] == np.sign(again.strides)[long]).all()


@pytest.mark.parametrize("how", ["c", "fortran", "reversed", "strided", "part", "transposed"])
def test_products_round_as_before(how):
    rng = np.random.default_rng(0)
    matrix, vector = layouts(rng.standard_normal((33, 47)), how), layouts(rng.standard_normal(47), how)
    again, v = round_trip((matrix, vector))
    assert (again @ v).tobytes() == (matrix @ vector).tobytes()
    assert (v @ again.T).tobytes() == (vector @ matrix.T).tobytes()
    assert (v @ v).tobytes() == (vector @ vector).tobytes()
    assert (again @ again.T).tobytes() == (matrix @ matrix.T).tobytes()


def round_trip(value):
    writer = archive.Writer()
    root = writer.value(value)
    document = json.loads(json.dumps([writer.table, root]))
    numbers = {name: np.concatenate(kept) for name, kept in writer.arrays.items()}
    return archive.Reader(numbers).read(*document)


plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from([np.float32(0.1), np.float64(-0.0), np.int32(7), np.bool_(True), np.dtype("float32"), 2**100])
)
keys = st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.floats(allow_nan=False))
trees = st.recursive(
    plain | arrays.map(lambda drawn: drawn[0]),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(keys, inner)
        | st.builds(Memory, inner, st.integers(0))
        | st.builds(Pair, inner, inner)
        | inner.map(lambda x: [x, x, (x,)])
        | st.lists(st.floats(), min_size=8)
        | st.lists(st.integers(-(2**63), 2**63), min_size=8)
    ),
    max_leaves=12,
)


@given(trees)
@settings(deadline=None, max_examples=150, derandomize=True)
def test_trees_of_data_come_back_as_they_are(tree):
    assert_same_data(round_trip(tree), tree)


def test_what_is_shared_stays_shared():
    shared, key = np.arange(3.0), Point(np.zeros(2))
    memory = Memory([shared, {"again": shared}, (key, {key: shared})])
    first, second, (again, by_key) = round_trip((memory, memory))[0].values
    assert first is second["again"] is by_key[again]
    one, two = round_trip([memory, memory])
    assert one is two
    one.values[0][0] = 5
    assert shared[0] == 0
    assert "cache" not in str(archive.Writer().value(memory))


def test_rows_of_a_trace_come_back_with_their_types():
    rows = [(1.5, np.nan, 0.0, 1, 2, 0, np.inf), (-0.0, 1e-300, 0.25, 2, 3, 0.5, 1.0)]
    again = round_trip(Trace(rows))
    assert repr(again._rows) == repr(rows)
    assert round_trip(Trace())._rows == []


@pytest.mark.parametrize("stopped", [0, 7])
def test_saving_what_was_loaded_gives_the_same_file(stopped, tmp_path):
    state = small_state("pairwise", stopped)
    state.save(tmp_path / "first")
    fw.State.load(tmp_path / "first").save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_numpy_reads_the_file_without_pickle(tmp_path):
    state = small_state("rk44")
    state.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        assert json.loads(file["state.json"])["format"] == "fwflow state"
        assert set(file) <= {"state.json", *archive.TYPES}
        numbers = file["float64"]
    assert all(value in numbers for value in state.x)


def test_nothing_of_the_package_pickles():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(names), path
            if isinstance(node, ast.Call):
                assert not any(k.arg == "allow_pickle" and getattr(k.value, "value", 1) for k in node.keywords), path


# What cannot be written is named.


class Thing:
    pass


def cyclic():
    loop = []
    loop.append(loop)
    return loop


def deep(depth=500, nest=()):
    for _ in range(depth):
        nest = (nest,)
    return nest


NO_DATA = {
    "object": (lambda: {"model": Thing()}, r"state\.memory\['model'\] is a .*Thing, which cannot be stored"),
    "function": (lambda: Memory(values=[1.0, len]), r"state\.memory\.values\[1\] is a builtins"),
    "set": (lambda: {1, 2}, r"state\.memory is a builtins\.set"),
    "objects": (lambda: (np.array([None]),), r"state\.memory\[0\] is an array of object"),
    "text array": (lambda: np.array(["a"]), r"state\.memory is an array of <U1"),
    "matrix": (lambda: np.ma.masked_array([1.0]), r"state\.memory is a numpy.*MaskedArray"),
    "generator": (lambda: np.random.default_rng(0), r"state\.memory is a numpy\.random.*Generator"),
    "key": (lambda: {Thing: 1}, r"state\.memory\[.*Thing.*\] is a builtins\.type"),
    "cycle": (cyclic, r"state\.memory\[0\] contains itself"),
    "deep": (deep, r"state\.memory(\[0\])+ is nested too deeply"),
    "deep where it is met again": (lambda: [inner := deep(60), deep(50, inner)], r"memory\[1\].* is nested too deeply"),
    "annotation": (lambda: Memory(seen="many"), r"state\.memory\.seen is a str where Memory says int"),
    "items": (lambda: Memory(names=(1.0,)), r"state\.memory\.names is a tuple where Memory says .*Sequence\[str\]"),
    "choices": (lambda: Memory(modes=("lazy", "fast")), r"state\.memory\.modes is a tuple where Memory says .*Literal"),
    "not valid": (lambda: Memory(seen=-1), r"state\.memory is not a valid Memory"),
}


@pytest.mark.parametrize("kind", NO_DATA)
def test_save_says_which_field_is_no_data(kind, tmp_path):
    make, message = NO_DATA[kind]
    with pytest.raises(ValueError, match=message):
        replace(small_state("fw"), memory=make()).save(tmp_path / "state")
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class Learning(fw.LineSearch):
    """A line search whose memory is a model of its own."""

    made: Any

    def step(self, line, gamma, limit, memory):
        return min(limit, gamma / 2), self.made if memory is None else memory


def test_what_users_keep_is_saved_or_named(tmp_path):
    f, C = fw.LinearModel(design(20, 6), targets(20)), fw.L1Ball(1.0)
    run = {"method": "fw", "tol": 0, "line_search": Learning(Memory(np.arange(3.0), 2, ("a",)))}
    half = fw.minimize(f, C, max_iter=5, **run).state
    half.save(tmp_path / "state")
    again = fw.State.load(tmp_path / "state")
    assert_same_data(again.memory.search, half.memory.search)
    assert fw.minimize(f, C, max_iter=5, state=again, **run).nit == 10
    state = fw.minimize(f, C, max_iter=5, method="fw", tol=0, line_search=Learning({"model": Thing()})).state
    with pytest.raises(ValueError, match=r"^state\.memory\.search\['model'\] is a .*Thing, which cannot be stored.*"):
        state.save(tmp_path / "state")
    assert fw.State.load(tmp_path / "state").k == 5  # that of before


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="the name 'point' belongs to fwflow"):
        storage.storable("point")(Memory)
    assert by_name["point"].cls is Point
    with pytest.raises(ValueError, match="neither a dataclass nor a named tuple"):
        storage.storable("test-thing")(Thing)
    assert storage.storable("test-memory", valid=lambda memory: memory.seen >= 0)(Memory) is Memory  # run once more


# What is not a state is refused.


@lru_cache
def small_state(method, iterations=3):
    f = fw.LinearModel(design(5, 3), targets(5)) if method != "completion" else completion_on((4, 3))
    C = fw.NuclearBall(3.0) if method == "completion" else fw.L1Ball(1.0)
    return fw.minimize(f, C, tol=0, max_iter=iterations, method="fw" if method == "completion" else method).state


@lru_cache
def small_file(method):
    with TemporaryDirectory() as folder:
        small_state(method).save(Path(folder) / "state")
        return (Path(folder) / "state").read_bytes()


def sealed(data):
    """With the checksum that it ought to have."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def outcome(data, path):
    """Whether a file is refused; if not, what it holds is returned. Anything but one ValueError is a failure."""
    path.unlink(missing_ok=True)  # quicker than to overwrite it
    path.write_bytes(data)
    try:
        return fw.State.load(path)
    except ValueError as error:
        said = str(error)
    assert re.fullmatch(f"path: {str(path)!r} does not hold a fwflow state that can be read: .+", said)
    return None


def corrupted(data, rng):
    """A copy with some random damage."""
    data, n = bytearray(data), len(data)
    i, j = sorted(rng.integers(0, n, 2).tolist())
    kind = int(rng.integers(9))
    if kind < 3:
        for _ in range((1, 2, 16)[kind]):
            data[int(rng.integers(n))] ^= 1 << int(rng.integers(8))
    elif kind == 3:
        data[i:j] = rng.bytes(j - i)
    elif kind == 4:
        data[i:j] = bytes(j - i)
    elif kind == 5:
        del data[i : i + int(rng.integers(1, 40))]
    elif kind == 6:
        data[i:i] = rng.bytes(int(rng.integers(1, 40)))
    elif kind == 7:
        del data[i:]
    else:
        data = data[:i] + data[j:] + data[i:j]
    return bytes(data)


METHODS_OF_FILES = ["rk44", "pairwise", "flow", "apg", "completion"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS_OF_FILES)
def test_damaged_files_are_refused(method, tmp_path):
    data, rng = small_file(method), np.random.default_rng(0)
    for _ in range(1200):
        damaged = corrupted(data, rng)
        assert damaged == data or outcome(damaged, tmp_path / "state") is None


@pytest.mark.parametrize("method", METHODS_OF_FILES)
def test_damage_that_a_checksum_hides_is_refused_or_does_no_harm(method, tmp_path):
    data, rng = small_file(method), np.random.default_rng(1)
    end = len(data) - 64 - len(archive._SEAL)
    harmless = 0
    for _ in range(300):
        loaded = outcome(sealed(corrupted(data[:end], rng) + data[end:]), tmp_path / "state")
        if loaded is not None:
            loaded.save(tmp_path / "again")
            assert (tmp_path / "again").read_bytes() == data
            harmless += 1
    assert harmless < 100


@pytest.mark.parametrize("method", ["pairwise"])
def test_every_shorter_file_is_refused(method, tmp_path):
    data = small_file(method)
    for length in range(len(data)):
        assert outcome(data[:length], tmp_path / "state") is None


def parts_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    """An archive with a true checksum, whatever it holds: a mapping, or a list where names come twice."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as target:
        warnings.simplefilter("ignore")
        for name, content in members.items() if isinstance(members, dict) else members:
            target.writestr(name, content)
        target.comment = archive._SEAL + bytes(64)
    return sealed(file.getvalue())


def with_document(data, change):
    """The file with its document changed."""
    members = parts_of(data)
    document = json.loads(members["state.json"])
    changed = change(document)
    text = json.dumps(document if changed is None else changed, separators=(",", ":"))
    members["state.json"] = text.encode()
    return packed(members)


STRANGE = [None, True, -1, 0, 1, 3, 2**70, 1e308, "", "nan", "point", [], [0], [-1], [10**9], [[0]], ["0"], {}, [0, 0]]


def mutated(node, rng):
    """Somewhere in a document something else."""
    while True:
        inner = [*node] if isinstance(node, dict) else range(len(node))
        place = inner[int(rng.integers(len(inner)))]
        child = node[place]
        if isinstance(child, list | dict) and child and rng.random() < 0.9:
            node = child
            continue
        what = int(rng.integers(4)) if isinstance(node, list) else 0
        strange = copy.deepcopy(STRANGE[int(rng.integers(len(STRANGE)))])
        if what == 0:
            node[place] = strange
        elif what == 1:
            del node[place]
        elif what == 2:
            node.insert(place, strange)
        else:
            other = int(rng.integers(len(node)))
            node[place], node[other] = node[other], node[place]
        return


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS_OF_FILES)
def test_strange_documents_are_refused_or_hold_a_state(method, tmp_path):
    data, rng = small_file(method), np.random.default_rng(2)
    refused = 0
    for _ in range(250):
        loaded = outcome(with_document(data, lambda document: mutated(document, rng)), tmp_path / "state")
        refused += loaded is None
        if loaded is not None:
            loaded.save(tmp_path / "again")  # a state like any other
            assert_same_data(fw.State.load(tmp_path / "again"), loaded)
    assert refused > 150


RAN = []


class Runs:
    def __reduce__(self):
        return RAN.append, (1,)


def object_arrays():
    file = io.BytesIO()
    np.savez(file, a=np.array([Runs()], dtype=object))
    return file.getvalue()


FOREIGN = {
    "empty": b"",
    "text": b"k,fun,gap\n0,1,2\n",
    "a pickle": pickle.dumps(Runs()),
    "an old state": pickle.dumps({"method": "fw", "k": 3}),
    "an object array": object_arrays(),
    "another npz": (lambda file: (np.savez(file, x=np.ones(3)), file.getvalue())[1])(io.BytesIO()),
    "an npy": (lambda file: (np.save(file, np.ones(3)), file.getvalue())[1])(io.BytesIO()),
    "only a seal": archive._SEAL + b"0" * 64,
    "a sealed seal": sealed(archive._SEAL + b"0" * 64),
    "a sealed pickle": sealed(pickle.dumps(Runs()) + archive._SEAL + b"0" * 64),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files_are_refused(kind, tmp_path):
    assert outcome(FOREIGN[kind], tmp_path / "state") is None
    assert not RAN


def entry_of(document, kind, *head):
    return next(entry for entry in document["objects"] if entry[: 1 + len(head)] == [kind, *head])


def set_in(document, kind, name, attribute, value):
    entry_of(document, kind, name)[2 + by_name[name].attributes.index(attribute)] = value


def npy(descr, shape, content=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def nested(text, depth=100_000):
    return text * depth


def doubling(document):
    """A tuple of two of a tuple of two of ...: more values than atoms in the universe, as a key."""
    start = len(document["objects"])
    document["objects"] += [["tuple", 1, 1], *(["tuple", [start + i], [start + i]] for i in range(90))]
    document["objects"].append(["dict", [start + 90], 1])


def tower(document):
    start = len(document["objects"])
    document["objects"] += [["tuple"], *(["tuple", [start + i]] for i in range(100_000))]


CRAFTED = {
    "newer": (lambda d: d.update(version=2, library="9.9"), r"fwflow 9\.9 wrote it, in format 2.*use fwflow 9\.9"),
    "older": (lambda d: d.update(version=0), "wrote it, in format 0, .* reads format 1"),
    "another format": (lambda d: d.update(format="diary"), "document is malformed"),
    "no version": (lambda d: d.pop("version") and None, "malformed: 'version'"),
    "a true version": (lambda d: d.update(version=True), "document is malformed"),
    "extra": (lambda d: d.update(run="rm -rf"), "malformed"),
    "no dict": (lambda d: [d], "malformed"),
    "another class": (lambda d: d.update(state=[0]), "it holds a"),
    "no object": (lambda d: d.update(state=1.0), "it holds a float"),
    "unknown class": (lambda d: d["objects"].append(["object", "os.system", "true"]), "'os.system' is not registered"),
    "itself": (lambda d: d["objects"].append(["list", [len(d["objects"])]]), "malformed: list index out of range"),
    "later": (lambda d: d["objects"].insert(0, ["list", [1]]), "malformed: list index out of range"),
    "no kind": (lambda d: d["objects"].append([]), "malformed: not enough values"),
    "unknown kind": (lambda d: d["objects"].append(["module", "os"]), "an entry of the unknown kind 'module'"),
    "negative count": (lambda d: set_in(d, "object", "counts", "n_grad", -1), "a Counts is not valid"),
    "count that is no number": (lambda d: set_in(d, "object", "counts", "n_lmo", "3"), "n_lmo is a str where Counts"),
    "count that is true": (lambda d: set_in(d, "object", "counts", "n_lmo", True), "n_lmo is a bool where Counts"),
    "negative k": (lambda d: set_in(d, "object", "state", "k", -1), "a State is not valid"),
    "k beyond the trace": (lambda d: set_in(d, "object", "state", "k", 9), "a State is not valid"),
    "no point": (lambda d: set_in(d, "object", "state", "point", 1.0), "point is a float where State says Point"),
    "too few attributes": (
        lambda d: entry_of(d, "object", "state").pop() and None,
        "a State has other attributes here",
    ),
    "too many attributes": (
        lambda d: entry_of(d, "object", "point").append(1),
        "a Point has other attributes here",
    ),
    "vertex elsewhere": (lambda d: set_in(d, "object", "one-hot", "index", 3), "a OneHot is not valid"),
    "large array": (lambda d: entry_of(d, "array").__setitem__(2, [10**15]), "more entries than the file"),
    "negative array": (lambda d: entry_of(d, "array").__setitem__(2, [-1]), "more entries than the file"),
    "unknown numbers": (lambda d: entry_of(d, "array").__setitem__(1, "object"), "malformed"),
    "overlapping": (lambda d: entry_of(d, "array", "float64", [5]).__setitem__(3, [0]), "overlap"),
    "far apart": (lambda d: entry_of(d, "array", "float64", [5]).__setitem__(3, [10**12]), "large gaps"),
    "left over": (lambda d: d["objects"].pop(0) and None, "."),
    "a key twice": (lambda d: d["objects"].append(["dict", 1, 2, 1, 3]), "key twice"),
    "a key that cannot be one": (lambda d: d["objects"].extend([["list"], ["dict", [len(d["objects"])], 1]]), "hash"),
    "half a pair": (lambda d: d["objects"].append(["dict", 1]), "malformed"),
    "towers of tuples": (tower, "nested too deeply"),
    "doubling keys": (doubling, "too large keys"),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_documents_are_refused(kind, tmp_path):
    change, why = CRAFTED[kind]
    (tmp_path / "state").write_bytes(with_document(small_file("pairwise"), change))
    with pytest.raises(ValueError, match=f"does not hold a fwflow state that can be read: .*{why}"):
        fw.State.load(tmp_path / "state")


def crafted_archives():
    members = parts_of(small_file("pairwise"))
    text, numbers = members["state.json"], members["float64.npy"]
    twice = text.replace(b'"version":1', b'"version":1,"version":1')
    return {
        "untouched": (packed(members), None),
        "a member twice": (packed([*members.items(), ("state.json", text)]), "two members of the same name"),
        "another member": (packed(members | {"code.py": b"import os"}), "its member 'code.py' is not a list"),
        "no document": (packed({"float64.npy": numbers}), "malformed: 'state.json'"),
        "compressed": (packed(members, zipfile.ZIP_DEFLATED), None),
        "no numbers": (
            packed(members | {"int8.npy": bytes(10**7)}, zipfile.ZIP_DEFLATED),
            "its member 'int8' is not a list of numbers",
        ),
        "a key twice": (packed(members | {"state.json": twice}), "document is malformed"),
        "no JSON": (packed(members | {"state.json": b"{"}), "."),
        "NaN": (
            packed(members | {"state.json": text.replace(b'"version":1', b'"version":NaN')}),
            "in format nan",
        ),
        "not ASCII": (packed(members | {"state.json": text + "ä".encode()}), "."),
        "deep JSON": (packed(members | {"state.json": nested(b"[")}), "."),
        "a huge number": (packed(members | {"state.json": b"1" * 10**6}), "."),
        "no array": (packed(members | {"float64.npy": b"no array"}), "."),
        "a huge array": (packed(members | {"float64.npy": npy("<f8", (10**15,))}), "its header"),
        "a negative array": (packed(members | {"float64.npy": npy("<f8", (-1,))}), "."),
        "an object array": (
            packed(members | {"float64.npy": npy("|O", (1,), pickle.dumps(Runs()))}),
            "Object arrays cannot be loaded",
        ),
        "another type": (packed(members | {"float64.npy": numbers.replace(b"<f8", b"<i8")}), "not a list of numbers"),
        "numbers left over": (packed(members | {"int8.npy": npy("|i1", (1,), b"1")}), "belong to no array"),
        "odd truth": (packed(members | {"bool.npy": npy("|b1", (1,), b"\x02")}), "neither true nor false"),
    }


@pytest.mark.parametrize("kind", crafted_archives())
def test_crafted_archives_are_refused(kind, tmp_path):
    data, why = crafted_archives()[kind]
    loaded = outcome(data, tmp_path / "state")
    if why is None:
        assert_same_data(loaded, small_state("pairwise"))
    else:
        assert loaded is None
        with pytest.raises(ValueError, match=why):
            fw.State.load(tmp_path / "state")
    assert not RAN


def test_a_bomb_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_FLOOR", 2**17)
    bomb = parts_of(small_file("pairwise")) | {"int8.npy": npy("|i1", (10**7,), bytes(10**7))}
    assert outcome(packed(bomb, zipfile.ZIP_DEFLATED), tmp_path / "state") is None
    with pytest.raises(ValueError, match="unpacks to more than"):
        fw.State.load(tmp_path / "state")


def test_index_arrays_are_not_believed(tmp_path):
    """SciPy's products follow them without a look at the bounds."""
    good = Sampled(np.ones(3), np.array([0, 1, 1]), np.array([0, 2, 3]), (2, 2))
    assert_same_data(through_a_file(good, tmp_path / "gradient"), good)
    for change in (
        {"indices": np.array([0, 1, 10**6])},
        {"indices": np.array([0, -1, 1])},
        {"indptr": np.array([0, 2, 10**6])},
        {"indptr": np.array([0, 5, 3])},
        {"indptr": np.array([1, 2, 3])},
        {"indptr": np.array([0, 3])},
        {"data": np.ones(2)},
    ):
        with pytest.raises(ValueError, match="not a valid Sampled"):
            storage.save(replace(good, **change), tmp_path / "gradient")


def test_a_folder_or_nothing_at_all_is_an_error_of_the_system(tmp_path):
    with pytest.raises(IsADirectoryError):
        fw.State.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        fw.State.load(tmp_path / "nothing")


def test_a_full_disk_leaves_what_was_there(tmp_path):
    resource = pytest.importorskip("resource")
    small_state("fw").save(tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    state = replace(small_state("fw"), memory=np.zeros(10**6))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, limits[1]))
        with pytest.raises(OSError, match=r"the file was not saved, and an earlier file is unchanged.*state"):
            state.save(tmp_path / "state")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").read_bytes() == before


# A state continues its own problem only.


def changed(array, i=0):
    array = array.copy()
    array.reshape(-1)[i] += 1e-9
    return array


A, B, H = design(30, 10), targets(30), np.diag(np.arange(1.0, 11))
ROWS, COLS, VALUES = np.array([0, 1, 2, 2]), np.array([0, 1, 0, 2]), np.array([1.0, 2.0, 3.0, 4.0])

SAME_OR_OTHER = {
    "design": (lambda A: fw.LinearModel(A, B), fw.L1Ball(1.0), A, changed(A, 77)),
    "targets": (lambda b: fw.LinearModel(A, b), fw.L1Ball(1.0), B, changed(B)),
    "sparse": (lambda A: fw.LinearModel(sp.csr_array(A), B), fw.L1Ball(1.0), A, changed(A, 5)),
    "loss": (lambda loss: fw.LinearModel(A, B, loss=loss), fw.L1Ball(1.0), "squared", "huber"),
    "rho": (lambda rho: fw.LinearModel(A, B, "huber", rho=rho), fw.L1Ball(1.0), 0.5, 0.6),
    "scale": (lambda scale: fw.LinearModel(A, B, scale=scale), fw.L1Ball(1.0), "sum", "mean"),
    "precision": (lambda dtype: fw.LinearModel(A.astype(dtype), B), fw.L1Ball(1.0), np.float64, np.float32),
    "quadratic": (lambda H: fw.Quadratic(H), fw.Simplex(), H, H + 1e-9 * np.eye(10)),
    "linear term": (lambda b: fw.Quadratic(H, b), fw.Simplex(), B[:10], B[1:11]),
    "entries": (lambda v: fw.MatrixCompletion(ROWS, COLS, v, (3, 3)), fw.NuclearBall(), VALUES, changed(VALUES)),
    "places": (lambda c: fw.MatrixCompletion(ROWS, c, VALUES, (3, 3)), fw.NuclearBall(), COLS, COLS[::-1].copy()),
    "kind": (lambda kind: kind(A.T @ A, A.T @ B), fw.Simplex(), fw.Quadratic, fw.LinearModel),
    "smoothness": (lambda L: fw.Smooth(lambda x: x @ x / 2, lambda x: x, smoothness=L, shape=(3,)), fw.Simplex(), 2, 3),
}


@pytest.mark.parametrize("through_file", [True, False], ids=["file", "memory"])
@pytest.mark.parametrize("kind", SAME_OR_OTHER)
def test_a_state_of_other_data_is_refused(kind, through_file, tmp_path):
    make, C, same, other = SAME_OR_OTHER[kind]
    state = fw.minimize(make(same), C, tol=0, max_iter=3, method="fw").state
    if through_file:
        state.save(tmp_path / "state")
        state = fw.State.load(tmp_path / "state")
    assert fw.minimize(make(copy.deepcopy(same)), C, tol=0, max_iter=3, method="fw", state=state).nit == 6
    with pytest.raises(ValueError, match=r"^state belongs to another problem: its objective was .* x0=state\.x$"):
        fw.minimize(make(other), C, tol=0, max_iter=3, method="fw", state=state)


def other_sets():
    grown = {name: (2.0 * C, C) for name, (C, _) in SETS.items()}
    hull, shift = SETS["hull"][0].vertices, np.linspace(-1, 1, 6)
    return grown | {
        "radius": (fw.L1Ball(1.0), fw.L1Ball(1.0 + 1e-12)),
        "exponent": (fw.LpBall(1.5), fw.LpBall(1.6)),
        "vertices": (fw.ConvexHull(hull), fw.ConvexHull(changed(hull))),
        "bounds": (fw.Box(-np.ones(6), np.ones(6)), fw.Box(changed(-np.ones(6)), np.ones(6))),
        "shift": (fw.L1Ball() + shift, fw.L1Ball() + changed(shift)),
        "shifted": (fw.L1Ball() + shift, fw.L1Ball(2.0) + shift),
        "factor": (3.0 * fw.L1Ball(), 4.0 * fw.L1Ball()),
        "blocks": (
            fw.Product([(fw.L1Ball(), 2), (fw.Simplex(), 4)]),
            fw.Product([(fw.Simplex(), 2), (fw.L1Ball(), 4)]),
        ),
        "sides": (fw.Polytope(np.eye(2), [1, 1], lower=-1), fw.Polytope(np.eye(2), [1, 2], lower=-1)),
    }


@pytest.mark.parametrize("kind", other_sets())
def test_sets_are_told_apart(kind):
    one, other = other_sets()[kind]
    again = other_sets()[kind][0]
    assert one.fingerprint() == again.fingerprint() is not None
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize("through_file", [True, False], ids=["file", "memory"])
def test_a_state_of_another_set_is_refused(through_file, tmp_path):
    f = fw.LinearModel(A, B)
    state = fw.minimize(f, fw.L1Ball(1.0), tol=0, max_iter=3, method="fw").state
    if through_file:
        state.save(tmp_path / "state")
        state = fw.State.load(tmp_path / "state")
    with pytest.raises(ValueError, match=r"another problem: its set was L1Ball .*, and this one is L1Ball"):
        fw.minimize(f, fw.L1Ball(2.0), method="fw", state=state)


@pytest.mark.parametrize("name", [*OBJECTIVES, *MATRIX_OBJECTIVES])
def test_objectives_of_the_catalogue_tell_their_data(name):
    make, shape = (OBJECTIVES[name], 6) if name in OBJECTIVES else (MATRIX_OBJECTIVES[name], (4, 3))
    one, again, other = make(shape, 0), make(shape, 0), make(shape, 1)
    assert one.fingerprint() == again.fingerprint()
    assert (one.fingerprint() != other.fingerprint()) == (name != "smooth")  # functions cannot be looked into


def test_what_cannot_be_told_is_not_checked(tmp_path):
    class Plain(fw.Objective):
        def __init__(self, centre):
            self.centre = centre

        def value(self, point):
            return float(((point.x - self.centre) ** 2).sum())

        def gradient(self, point):
            return 2 * (point.x - self.centre)

    state = fw.minimize(Plain(1.0), lambda g: -np.sign(g), np.ones(3), method="fw", tol=0, max_iter=2).state
    assert state.origin.fingerprints == (None, None)
    state.save(tmp_path / "state")
    state = fw.State.load(tmp_path / "state")
    assert fw.minimize(Plain(2.0), lambda g: -np.sign(g), method="fw", tol=0, max_iter=2, state=state).nit == 4


def test_fingerprints_are_made_when_they_are_needed(monkeypatch, tmp_path):
    calls = []

    class Watched(fw.LinearModel):
        def fingerprint(self):
            calls.append(1)
            return super().fingerprint()

    f, C = Watched(A, B), fw.L1Ball(1.0)
    state = fw.minimize(f, C, method="fw", tol=0, max_iter=3).state
    state = fw.minimize(f, C, method="fw", tol=0, max_iter=3, state=state).state
    assert not calls
    for _ in range(3):
        state.save(tmp_path / "state")
    assert len(calls) == 1


def test_a_copied_or_pickled_state_leaves_the_data_behind():
    f, C = fw.LinearModel(design(400, 300), targets(400)), fw.L1Ball(1.0)
    state = fw.minimize(f, C, method="fw", tol=0, max_iter=3).state
    sent = pickle.dumps(state)
    assert len(sent) < 10**5 < f.design.A.nbytes
    for again in (pickle.loads(sent), copy.deepcopy(state)):
        assert again.origin.objective is None
        assert fw.minimize(f, C, method="fw", tol=0, max_iter=3, state=again).nit == 6
        with pytest.raises(ValueError, match="another problem"):
            fw.minimize(fw.LinearModel(design(400, 300, 1), targets(400)), C, method="fw", state=again)
