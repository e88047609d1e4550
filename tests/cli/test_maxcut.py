"""``fwflow maxcut``: formats of graphs, output, exit codes, and errors of one sentence."""

import gzip
import json
import re

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from typer.testing import CliRunner

from fwflow import cli
from fwflow.semidefinite import maxcut
from fwflow.semidefinite.graph_files import read_graph_file
from tests.cli.test_cli import fails


def run(*arguments):
    return CliRunner().invoke(cli.app, ["maxcut", *map(str, arguments)])


@pytest.fixture
def graph():
    G = nx.gnp_random_graph(25, 0.3, seed=3)
    for k, (_, _, data) in enumerate(G.edges(data=True)):
        data["weight"] = k % 5 - 1.5
    return nx.to_scipy_sparse_array(G, dtype=float)


def edges(A):
    upper = sp.triu(A, format="coo")
    return list(zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True))


def written(A, path, kind):
    """Write a graph in one of the formats."""
    n = A.shape[0]
    if kind == "rudy":
        lines = [f"{n} {len(edges(A))}", *(f"{i + 1} {j + 1} {w:g}" for i, j, w in edges(A))]
    elif kind == "edges":
        lines = ["# an edge list", "", *(f"n{i},n{j},{w}" for i, j, w in edges(A))]
    else:
        scipy.io.mmwrite(path, A, symmetry="symmetric" if kind == "market" else "general")
        return
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", ["rudy", "edges", "market", "general market"])
def test_formats_give_the_same_bound(tmp_path, graph, kind):
    path = tmp_path / ("graph.mtx" if "market" in kind else "graph.txt")
    written(graph, path, kind)
    done = run(path, "--json", "--out", tmp_path / "cut.txt")
    assert done.exit_code == 0
    shown = json.loads(done.output)
    expected = maxcut(graph)
    assert shown["bound"] == pytest.approx(expected.bound, rel=1e-3)
    assert shown["cut"] <= shown["bound"]
    assert shown["edges"] == len(edges(graph))
    assert shown["success"] is True
    sides = dict(line.split() for line in (tmp_path / "cut.txt").read_text().splitlines())
    name = (lambda i: f"n{i}") if kind == "edges" else (lambda i: str(i + 1))
    assert set(sides.values()) <= {"1", "-1"}
    cut = sum(w for i, j, w in edges(graph) if sides[name(i)] != sides[name(j)])
    assert cut == pytest.approx(shown["cut"])


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "graph.txt.gz"
    path.write_bytes(gzip.compress(b"a b\nb c\nc a\n"))
    assert "cut: 2\n" in run(path).output


def test_output_in_words(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("1 2\n2 3\n3 4\n4 1\n")
    output = run(path, "--out", tmp_path / "cut.txt").output
    assert "graph: 4 nodes, 4 edges\ncut: 4\nbound: 4 (the cut reaches 100.00 % of it)\n" in output
    assert "seconds: " in output
    assert "within the tolerance" in output
    assert f"cut written to: {tmp_path / 'cut.txt'}" in output


def test_a_graph_without_edges(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("3 0\n")
    done = run(path, "--json")
    assert done.exit_code == 0
    assert json.loads(done.output)["cut"] == 0


def test_an_early_end_has_exit_code_3(tmp_path):
    A = nx.to_scipy_sparse_array(nx.gnp_random_graph(450, 0.02, seed=1), dtype=float)
    written(A, tmp_path / "graph.txt", "rudy")
    done = run(tmp_path / "graph.txt", "--max-time", "1e-6", "--rtol", "1e-9", "--json")
    assert done.exit_code == 3
    shown = json.loads(done.output)
    assert shown["status"] == "TIME"
    assert shown["bound"] >= shown["value"]


def test_repeated_edges_add_up_and_loops_do_not_count(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("a b 2\nb a 3\na a 9\n")
    A, names = read_graph_file(path)
    assert names == ["a", "b"]
    assert A[0, 1] == A[1, 0] == 5
    assert "cut: 5\n" in run(path).output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no edges"),
        ("# only a comment\n", "has no edges"),
        ("a b c d\n", "line 1: an edge has two nodes and perhaps a weight; got 4 cells"),
        ("a\n", "line 1: an edge has two nodes"),
        ("a b\nb c x\n", "line 2: the weight 'x' is not a finite number"),
        ("a b nan\n", "line 1: the weight 'nan' is not a finite number"),
        ("a b 1_000\n", "line 1: the weight '1_000' is not a finite number"),
        ("3 2\n1 2 1\n4 1 1\n", "line 3: '4' is not a node number from 1 to 3"),
        ("3 2\n1 2 1\n0 1 1\n", "line 3: '0' is not a node number from 1 to 3"),
        ("3 7\n1 2 1\n2 3 1\n", "line 1: the file announces 7 edges, but has 2"),
        ("9999999999999 1\n1 2 1\n", "line 1: the file announces 9999999999999 nodes"),
        ("%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n2 1 1\n", "is not a valid MatrixMarket file"),
        ("%%MatrixMarket matrix coordinate complex symmetric\n2 2 1\n2 1 1 1\n", "has complex entries"),
        ("%%MatrixMarket matrix coordinate real general\n2 3 1\n2 1 1\n", r"has shape \(2, 3\)"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n2 1 5\n", "must be symmetric"),
        ("%%MatrixMarket nonsense\n", "is not a valid MatrixMarket file"),
    ],
)
def test_bad_files_give_one_sentence(tmp_path, monkeypatch, capsys, content, message):
    path = tmp_path / "graph.txt"
    path.write_text(content)
    assert re.search(message, fails(capsys, monkeypatch, "maxcut", path))


def test_binary_files_are_refused(tmp_path, monkeypatch, capsys):
    path = tmp_path / "graph.txt"
    path.write_bytes(np.arange(200, dtype=np.uint8).tobytes())
    assert "is not a text file" in fails(capsys, monkeypatch, "maxcut", path)


@pytest.mark.parametrize(("option", "value"), [("--rtol", "0"), ("--rtol", "-1"), ("--max-time", "0")])
def test_wrong_options(tmp_path, monkeypatch, capsys, option, value):
    path = tmp_path / "graph.txt"
    path.write_text("a b\n")
    assert f"{option} must be a positive" in fails(capsys, monkeypatch, "maxcut", path, option, value)


def test_the_graph_is_not_overwritten(tmp_path, monkeypatch, capsys):
    path = tmp_path / "graph.txt"
    path.write_text("a b\n")
    assert "would overwrite" in fails(capsys, monkeypatch, "maxcut", path, "--out", path)
    assert path.read_text() == "a b\n"
