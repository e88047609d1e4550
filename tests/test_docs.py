"""Is the site true? Its code runs as written, it names every public name, and every page and example is in it."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from ast import literal_eval
from collections import Counter
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV

import fwflow as fw
from fwflow import checks, datasets, networks, semidefinite
from fwflow import jax as fwj
from fwflow import sklearn as estimators
from fwflow.tables import model_files as models
from tests.cli.test_cli import invoke

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NO_PAGES = ("_*", "gallery/*", "api/generated/*")
PAGES = {
    page.relative_to(DOCS).with_suffix("").as_posix(): page.read_text(encoding="utf-8")
    for suffix in ("md", "rst")
    for page in sorted(DOCS.rglob(f"*.{suffix}"))
    if not any(fnmatch(page.relative_to(DOCS).as_posix(), pattern) for pattern in NO_PAGES)
}
#: Examples that the gallery does not run, and why.
NOT_RUN: dict[str, str] = (
    {} if find_spec("torch") else {"pytorch_ensemble.py": "it needs PyTorch; make test-neighbours runs it"}
)


def blocks(page: str, *kinds: str) -> list[tuple[str, str]]:
    """The fenced blocks of some kinds on a page, with their kinds."""
    return re.findall(rf"^```({'|'.join(kinds)})\n(.*?)^```", PAGES[page], flags=re.M | re.S)


def run(code: str, page: str, names: dict[str, Any]) -> None:
    exec(compile(code, f"docs/{page}", "exec"), names)


def comparable(output: str) -> str:
    """What a command prints, without its seconds and what lies beyond the last character of a line."""
    return re.sub(r"[\d.]+ s$", "", "\n".join(map(str.rstrip, output.splitlines())), flags=re.M)


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_a_folder_of_its_own")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != "coming_from" and blocks(page, "python", "console")]
)
def test_code_prints_what_the_page_says(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed = ""
    for kind, text in blocks(page, "python", "console", "text"):
        if kind == "python":
            run(text, page, names)
            printed = capsys.readouterr().out
        elif kind == "console":
            results = [invoke(*shlex.split(line)[2:]) for line in text.splitlines()]
            assert [(result.exit_code, result.exception) for result in results] == [(0, None)] * len(results)
            printed = results[0].stdout
        else:
            assert comparable(printed) == comparable(text)


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next heading of the same or a higher level."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,3}} |\Z)", PAGES[page], flags=re.M | re.S)
    assert found, f"docs/{page}.md has no section {heading!r}"
    return str(found[2])


@pytest.mark.parametrize("status", fw.Status)
def test_every_status_has_a_section_whose_example_provokes_it(status: fw.Status) -> None:
    text = section("troubleshooting", status.name)
    outputs = re.findall(r"^```text\n(.*?)^```", text, flags=re.M | re.S)
    shown = [" ".join(output.split()) for output in outputs]
    assert any(output.startswith(f"{status.name}, success") and status.value in output for output in shown)
    assert f"[`{status.name}`](#{status.name.lower()})" in section("troubleshooting", "Status of a run")


#: Terms that other pages link to.
TERMS = """active-set atom certificate duality-gap face flow line-search momentum oracle pass-over-the-data radius
schedule stage status tableau trace vertex warm-start working-set"""


def anchors(page: str) -> list[str]:
    """Anchors of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.M | re.S)
    headings = re.findall(r"^#{1,3} (.+)$", text, flags=re.M)
    return [re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings]


def test_the_glossary_has_every_term_in_order() -> None:
    assert anchors("glossary")[1:] == TERMS.split()


@pytest.mark.parametrize("page", ["verification", "troubleshooting", "glossary", "cite"])
def test_links_to_headings_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([\w/]*)(?:\.md)?#([\w-]+)\)", PAGES[page]):
        assert anchor in anchors(target or page), f"{page}: {target}#{anchor}"


def test_the_citation_of_the_software_agrees_with_its_metadata() -> None:
    entry = re.search(r"^@software\{fwflow,\n(.*?)^\}", PAGES["cite"], flags=re.M | re.S)
    assert entry
    cited = dict(re.findall(r"(\w+) += \{+(.*?)\}+,?$", entry[1], flags=re.M))
    metadata = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (author,) = metadata["authors"]
    expected = {name: str(metadata[name]) for name in ("title", "version", "license")} | {"author": author["name"]}
    assert cited == expected
    assert cited["version"] == fw.__version__


def test_the_page_on_citing_names_the_data_that_ships() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    shipped = re.findall(r"https://doi\.org/(\S+)", notice)
    assert shipped
    for doi in shipped:
        assert PAGES["cite"].count(doi) == 3, doi  # the text and the target of a link, and BibTeX


def test_every_way_in_is_shown() -> None:
    kinds = Counter(kind for kind, _ in blocks("start", "python", "console", "text"))
    assert kinds["python"] >= 5
    assert kinds["console"] == 1
    assert kinds["text"] >= 5


def rows(heading: str) -> list[str]:
    """The right column of the table under a heading."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGES["coming_from"], flags=re.M | re.S)
    assert section
    return [line.split(" | ")[-1].rstrip(" |") for line in section[1].splitlines() if line.startswith("| ")][1:]


def code(cell: str) -> str:
    spans = re.findall(r"`([^`]+)`", cell)
    assert len(spans) == 1, f"one piece of code, please: {cell}"
    return str(spans[0])


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """What the page says that its names stand for."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 4))
    target = np.array([0.5, -0.2, 0.0, 0.1])
    names: dict[str, Any] = {
        "np": np,
        "A": A,
        "X": A,
        "b": A @ target + 1.0,
        "y": np.sign(A[:, 0] + 0.5 * rng.standard_normal(30)),
        "g": A[0],
        "x0": np.zeros(4),
        "fun": lambda x: float(((x - target) ** 2).sum()),
        "grad": lambda x: 2 * (x - target),
        "pairs": np.argwhere(rng.random((8, 6)) < 0.7),
    }
    names["ratings"] = 3 + names["pairs"][:, 0] % 2 - names["pairs"][:, 1] % 3
    for _, text in blocks("coming_from", "python"):
        run(text, "coming_from", names)
    return names


@pytest.mark.parametrize("cell", [cell for heading in ("copt", "FrankWolfe.jl", "SciPy") for cell in rows(heading)])
def test_calls_for_those_of_other_frank_wolfe_libraries(cell: str, data: dict[str, Any]) -> None:
    value = eval(code(cell), dict(data))
    for result in value if isinstance(value, tuple) else (value,):
        if isinstance(result, fw.Result) and "callback" not in cell:
            assert result.success, f"{cell}: {result.message}"


@pytest.mark.parametrize("cell", rows("scikit-learn"))
def test_calls_for_those_of_scikit_learn(cell: str, data: dict[str, Any]) -> None:
    value = eval(code(cell), dict(data))
    if isinstance(value, BaseEstimator) and not isinstance(value, GridSearchCV):
        few = {"n_radii": 4} if "n_radii" in value.get_params() else {}
        counts = value.get_params().get("loss") == "poisson"
        value.set_params(**few).fit(data["X"], data["y"].clip(0) if counts else data["y"])


def public_names() -> set[str]:
    parts = (fw, estimators, fwj, networks, semidefinite, datasets, checks)
    listed = {f"{m.__name__}.{name}" for m in parts for name in m.__all__}
    own = {
        f"{models.__name__}.{name}"
        for name, value in vars(models).items()
        if inspect.getmodule(value) is models and not name.startswith("_")
    }
    far = {f"fwflow.designs.{name}" for name in ("DataLost", "Distributed", "open")}
    far |= {f"fwflow.tables.{name}" for name in ("Frame", "read_frame", "preparation.Preparation")}
    far |= {f"fwflow.tables.problem.{name}" for name in ("TableProblem", "read_problem")}
    far |= {f"fwflow.tables.selection.{name}" for name in ("Selected", "select")}
    far |= {"fwflow.tables.constraints.Constraint"}
    themselves = {"fwflow.checks", "fwflow.networks", "fwflow.semidefinite"}
    again = {f"fwflow.networks.{name}" for name in networks.__all__ if name in fw.__all__}
    return (listed | own | far) - themselves - again


def neighbours() -> set[str]:
    """Names of the modules for PyTorch and optax, from their source, since neither framework is installed here."""
    source = {name: (ROOT / "src" / "fwflow" / f"{name}.py").read_text(encoding="utf-8") for name in ("torch", "optax")}
    lists = {name: re.search(r"^__all__ = (\[.*?\])", text, flags=re.M | re.S) for name, text in source.items()}
    return {f"fwflow.{name}.{entry}" for name, found in lists.items() if found for entry in literal_eval(found[1])}


def reference() -> Counter[str]:
    """The names that the tables of the reference list, in full."""
    found: Counter[str] = Counter()
    for name, text in PAGES.items():
        if name.startswith("api/"):
            for line in text.splitlines():
                if module := re.match(r"\.\. currentmodule:: (\S+)", line):
                    current = module[1]
                elif entry := re.match(r"   (\w+)$", line):
                    found[f"{current}.{entry[1]}"] += 1
    return found


def test_the_reference_has_every_public_name_once() -> None:
    assert reference() == Counter(public_names() | neighbours())


def test_every_page_is_in_one_table_of_contents() -> None:
    entries = Counter(
        (Path(page).parent / entry).as_posix()
        for page, text in PAGES.items()
        for toctree in re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.M | re.S)
        for entry in re.findall(r"^(?!:)(?:.*<)?([\w/]+)>?$", toctree, flags=re.M)
    )
    assert entries == Counter({*PAGES, "gallery/index"} - {"index"})


def test_the_gallery_runs_every_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())  # to which the configuration adds a folder
    names: dict[str, Any] = {"__file__": str(DOCS / "conf.py")}
    run((DOCS / "conf.py").read_text(encoding="utf-8"), "conf.py", names)
    gallery = names["sphinx_gallery_conf"]
    examples = sorted((DOCS / gallery["examples_dirs"]).glob("*.py"))
    assert examples
    run_by_it = {path.name for path in examples if re.search(gallery["filename_pattern"], str(path))}
    assert {path.name for path in examples} - run_by_it == NOT_RUN.keys()
    assert gallery["abort_on_example_error"]


def test_links_between_pages_lead_somewhere() -> None:
    for page, text in PAGES.items():
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            generated = target == "gallery/index.rst"
            assert generated or (DOCS / page).parent.joinpath(target).exists(), f"{page}: {target}"
