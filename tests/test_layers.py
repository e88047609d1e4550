"""Does the picture of the layers in CONTRIBUTING.md agree with the imports, and does the core keep to its rules?"""

import ast
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from fwflow.methods.catalogue import VARIANTS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fwflow"

#: Where the core may ask an object for a member by name, how often, and why.
ALLOWED_LOOKUPS = {
    "sets.callables": 1,  # an object of the user with a method lmo is a set
    "designs": 1,  # an argument that looks like SciPy's LinearOperator gets an error that helps
    "_validation": 1,  # the field of a frozen dataclass that is checked
    "_fingerprints": 1,  # the fields of a dataclass, by their names
    "objectives.screening": 2,  # a lazy gradient stands for an array: NumPy passes names of methods
    "_storage.registry": 1,  # the class method that a registration names
    "_storage.archive": 1,  # the attributes that a registration names
}


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "fwflow"


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
PICTURE = re.search(r"^## Layers\n.*?```text\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.M)[1]
#: Parts from the foundations up, one set per line; the last is built on the core and no part of it.
LAYERS = [set(re.split(r"\s{2,}", line)[0].split()) for line in PICTURE.splitlines()]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def part_of(module):
    return module.partition(".")[0]


CORE = [name for name in FILES if part_of(name) not in LAYERS[-1]]


def targets(node):
    """The modules of fwflow that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        assert node.level == 0, "imports are absolute"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        if name.partition(".")[0] == "fwflow":
            inside = name.removeprefix("fwflow").removeprefix(".")
            yield inside if inside in FILES else inside.rpartition(".")[0] or "fwflow"


def imports(tree):
    return {t for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for t in targets(node)}


def loaded(name):
    """Modules that must be loaded before this one: those that it names, and their packages, except for its own."""
    needed = imports(TREES[name])
    packages = {target.rpartition(".")[0] for target in needed} - {""}
    return {other for other in needed | packages if other != name and not name.startswith(other + ".")}


def test_the_picture_has_every_part_once():
    drawn = Counter(part for layer in LAYERS for part in layer)
    assert drawn == Counter({part_of(name) for name in FILES})


def test_the_core_has_no_import_cycle():
    TopologicalSorter({name: loaded(name) for name in CORE}).prepare()


def test_a_cycle_would_be_found():
    with pytest.raises(ValueError, match="cycle"):
        TopologicalSorter(
            {name: loaded(name) | ({"run.loop"} if name == "points.point" else set()) for name in CORE}
        ).prepare()


@pytest.mark.parametrize("name", FILES)
def test_modules_import_only_from_layers_above(name):
    own = part_of(name)
    for target in map(part_of, imports(TREES[name])):
        same = target == own or {target, own} <= LAYERS[-1]
        assert same or LEVEL[target] < LEVEL[own], f"{name} imports {target}, which the picture has below it"


@pytest.mark.parametrize("name", CORE)
def test_no_function_of_the_core_imports_from_it(name):
    for function in ast.walk(TREES[name]):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            assert not imports(function), f"{name}, line {function.lineno}"


def test_the_core_asks_for_declared_members_only():
    found = Counter(
        name
        for name in CORE
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Name) and node.id in ("getattr", "hasattr", "setattr")
    )
    assert found == ALLOWED_LOOKUPS


def test_the_top_level_has_few_public_parts():
    core = {part_of(name) for name in CORE} - {"fwflow"}
    assert len([part for part in core if not part.startswith("_")]) <= 12


def test_a_class_name_means_one_thing():
    places = {}
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    shared = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert len(shared) <= 30, sorted(shared)
    without_jax = [n for n, modules in shared.items() if len([m for m in modules if part_of(m) != "jax"]) > 1]
    assert len(without_jax) <= 4, without_jax  # Problem of minimize and of semidefinite is one of them


@pytest.mark.parametrize("method", VARIANTS)
def test_the_name_of_a_variant_stands_in_few_files(method):
    files = [
        name for name, path in FILES.items() if re.search(f"""["']{method}["']""", path.read_text(encoding="utf-8"))
    ]
    # The flow is also the name of a function and of results of experiments.
    assert len(files) <= (8 if method == "flow" else 4), files


#: Parts whose functions do one job each, and the largest number of branches of a function.
SMALL_PARTS = {"tableau", "points", "designs", "sets", "objectives", "steps", "methods", "run", "trajectories"}
MOST_BRANCHES = 20
#: Functions with more branches, which a later change should divide.
LONG = {("run.loop", "minimize"), ("run.paths", "chosen_radii")}


def branches(function):
    """Number of conditions, loops and handlers of a function, those of functions inside of it included."""
    kinds = ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler
    conditions = (len(node.values) - 1 for node in ast.walk(function) if isinstance(node, ast.BoolOp))
    return sum(isinstance(node, kinds) for node in ast.walk(function)) + sum(conditions)


def test_functions_of_the_core_are_short():
    found = {
        (name, node.name)
        for name, tree in TREES.items()
        if part_of(name) in SMALL_PARTS
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and branches(node) > MOST_BRANCHES
    }
    assert found <= LONG, "divide these functions"
    assert found == LONG, "remove these functions from LONG"
