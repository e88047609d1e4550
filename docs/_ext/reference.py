"""Members on the page of a class.

A page shows the docstring of the class, a table of the members that users call, and an entry for each of them that the
class defines. The rules:

1. An entry: a documented public member that the class or one of its non-public bases defines.
2. A member that a public base declares has no second entry. The table links to the entry of the base.
3. Families with many members for methods (`CALLED`: sets, objectives, estimators, vertices, ...) show the members that
   users call. These have an entry on the page of every class that defines them, so that the page of a set has its own
   `lmo`, `contains` and, where it is offered, `project`. Docstrings are inherited. Other members of the family are on
   the page of its root, to which a sentence refers. Members that only one class has need a docstring there.
4. Words that users search for (`SEARCHED`) are entries of the index.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sklearn.base import ClassifierMixin, RegressorMixin

import fwflow
from fwflow import checks, datasets, designs, jax, networks, semidefinite, sklearn, tables
from fwflow._graphs import NamedEdges
from fwflow.jax.objectives import Objective as JaxObjective
from fwflow.jax.sets import Set as JaxSet
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.points.point import Atom
from fwflow.sets import base
from fwflow.tables import constraints, model_files, preparation, problem, selection

MODULES = (
    fwflow,
    sklearn,
    jax,
    designs,
    networks,
    semidefinite,
    checks,
    datasets,
    model_files,
    tables,
    preparation,
    constraints,
    problem,
    selection,
)
#: Roots of families, and the members of a family that users call, in the order of the table.
CALLED: dict[type, tuple[str, ...]] = {
    fwflow.ConstraintSet: ("lmo", "project", "contains", "start", "random_start", "diameter", "bounds", "lower_bound"),
    fwflow.Objective: ("point", "value", "gradient"),
    fwflow.Vertex: ("dot", "add_to", "to_dense"),
    fwflow.Design: ("matvec", "rmatvec", "column"),
    fwflow.Schedule: ("gamma", "stage_gammas", "certifies"),
    fwflow.Method: (),
    fwflow.LineSearch: (),
    fwflow.Momentum: (),
    Decomposition: ("x",),
    Atom: ("dot", "add_to"),
    JaxSet: ("lmo", "project", "start"),
    JaxObjective: ("point", "value", "gradient"),
}
#: Words that users search for, and the pages that answer them. They are in the index, which the search prefers.
SEARCHED = {
    "non-negative": ("fwflow.Simplex", "fwflow.UnitSimplex", "fwflow.Box"),
    "sum to one": ("fwflow.Simplex",),
    "lasso": ("fwflow.L1Ball", "fwflow.sklearn.L1Regression"),
    "group lasso": ("fwflow.GroupBall", "fwflow.sklearn.GroupRegression"),
    "portfolio": ("fwflow.Simplex",),
    "assignment": ("fwflow.Birkhoff", "fwflow.Matching"),
    "traffic assignment": ("fwflow.FlowPolytope", "fwflow.networks.Network"),
    "maximum cut": ("fwflow.semidefinite.maxcut",),
    "matrix factorisation": ("fwflow.NuclearBall", "fwflow.MatrixCompletion", "fwflow.sklearn.NuclearCompletion"),
    "recommender systems": ("fwflow.MatrixCompletion", "fwflow.NuclearBall"),
    "ranking": ("fwflow.Birkhoff", "fwflow.Permutahedron"),
    "optimal transport": ("fwflow.TransportPolytope",),
    "semidefinite programs": ("fwflow.Spectraplex", "fwflow.Spectrahedron"),
    "principal component analysis": ("fwflow.Fantope",),
}
#: Members that a class of a family may lack. Such a class keeps the default of the root.
OPTIONAL = ("project", "bounds", "lower_bound")
#: Interfaces through which methods use a set. CONTRIBUTING.md refers to their source.
CAPABILITIES = (base.Faces, base.KnownVertices, base.WorkingSets, base.Summands, base.Exchanges)
#: Private classes whose members users call.
MIXINS = (NamedEdges,)
OPERATORS = "``factor * C`` is a `ScaledSet`, and ``C + shift`` is a `Translated` set."
SCORES = {RegressorMixin: "the coefficient of determination", ClassifierMixin: "the accuracy"}


def _classes() -> dict[str, type]:
    """Public classes by the name under which the reference lists them."""
    found: dict[type, str] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            own = inspect.isclass(value) and value.__module__.startswith(module.__name__)
            if own and not name.startswith("_") and value not in found:
                found[value] = f"{module.__name__}.{name}"
    return {name: cls for cls, name in found.items()}


CLASSES = _classes()
NAMES = {cls: name for name, cls in CLASSES.items()}


@dataclass(frozen=True)
class Page:
    """Entries of a class, the rows of its table as names seen from its module, sentences below it, and index words."""

    entries: list[str]
    rows: list[str]
    notes: list[str]
    words: list[str]


def _documented(cls: type, name: str) -> bool:
    member = inspect.getattr_static(cls, name)
    described = inspect.isfunction(member) or isinstance(
        member, property | cached_property | staticmethod | classmethod
    )
    return described and bool(inspect.getdoc(getattr(cls, name)))


def _declared(classes: Iterable[type]) -> dict[str, type]:
    """Public names that classes declare, each with the first of them."""
    found: dict[str, type] = {}
    for cls in classes:
        for name in vars(cls):
            if not name.startswith("_"):
                found.setdefault(name, cls)
    return found


def _root(cls: type) -> type | None:
    return next((kind for kind in CALLED if issubclass(cls, kind)), None)


def page(cls: type) -> Page:
    """The members that the page of a class shows."""
    lineage = [kind for kind in cls.__mro__ if kind.__module__.startswith("fwflow")]
    public = [kind for kind in lineage[1:] if kind in NAMES]
    inherited = _declared(public)
    root = _root(cls)
    if root is None or root is cls:
        own = _declared(kind for kind in lineage if kind not in public)
        entries = [name for name in own if name not in inherited]
        linked = list(inherited)
    else:
        defined = _declared(kind for kind in lineage if kind is not root)
        if root not in NAMES:  # There is no other page with their entries.
            defined |= {name: root for name in CALLED[root] if name not in OPTIONAL}
        for_methods = _declared((*root.__mro__, *CAPABILITIES)).keys()
        entries = [name for name in CALLED[root] if name in defined]
        mixed_in = [name for kind in MIXINS if issubclass(cls, kind) for name in _with_words(kind)]
        named = [*_with_words(cls), *mixed_in]
        entries += [name for name in named if name not in for_methods and name not in inherited]
        lacking = {*OPTIONAL} - ({"project"} if "projection" in defined else set())
        linked = [name for name in CALLED[root] if name in inherited and name not in lacking]
        between = [kind for kind in public if kind is not root]
        linked += [name for kind in between for name in _with_words(kind) if name not in for_methods]
    entries = [name for name in entries if _documented(cls, name)]
    linked = [name for name in dict.fromkeys(linked) if name not in entries and _documented(cls, name)]
    module = NAMES[cls].rpartition(".")[0] + "."
    places = [*((cls, name) for name in entries), *((inherited[name], name) for name in linked)]
    rows = [f"{NAMES[kind].removeprefix(module)}.{name}" for kind, name in places]
    words = [word for word, names in SEARCHED.items() if NAMES[cls] in names]
    return Page(entries, rows, _notes(cls, root), words)


def _with_words(cls: type) -> list[str]:
    """Public members to which the class itself gives a docstring."""
    return [
        name
        for name, member in vars(cls).items()
        if not name.startswith("_") and hasattr(member, "__get__") and member.__doc__
    ]


def _notes(cls: type, root: type | None) -> list[str]:
    notes = [OPERATORS] if root is fwflow.ConstraintSet and cls is not root else []
    if root in NAMES and cls is not root:
        name = NAMES[root].removeprefix(NAMES[cls].rpartition(".")[0] + ".")
        notes.append(f"Attributes and methods that only solvers and extensions need are on the page of `{name}`.")
    for mixin, meaning in SCORES.items():
        if issubclass(cls, mixin):
            notes.append(
                f"``score(X, y)`` is {meaning}. ``get_params``, ``set_params`` and ``score`` come from scikit-learn."
            )
    return notes


#: Frameworks that are not installed where the site is built. Mocks stand for them, so that docstrings can be read.
NOT_INSTALLED = ("torch", "optax")
#: Members on the pages of classes that need these frameworks, which cannot be inspected here.
NEIGHBOURS = {
    "fwflow.torch.LMO": ["step", "gap", "last_gap", "add_param_group", "state_dict", "load_state_dict"],
    "fwflow.torch.Gap": [],
    "fwflow.torch.GapStop": [],
    "fwflow.optax.LMOState": ["total_gap"],
}


def _neighbour(name: str, entries: list[str]) -> Page:
    return Page(entries, [f"{name.rpartition('.')[2]}.{entry}" for entry in entries], [], [])


#: For the template of a class.
MEMBERS = {name: page(cls) for name, cls in CLASSES.items()}
MEMBERS |= {name: _neighbour(name, entries) for name, entries in NEIGHBOURS.items()}
