"""Graphs from files: edge lists, the rudy format of the G-set, and MatrixMarket."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from fwflow._storage.files import opened
from fwflow._validation import InputError, one_line, parsed

_MARKET = "%%MatrixMarket"
# Largest number of nodes that a file may announce, since a wrong number would fill the memory.
_MOST_NODES = 100_000_000


def read_graph_file(path: str | Path) -> tuple[sp.csr_array, list[str]]:
    """Return the symmetric adjacency matrix of a graph in a file, and the names of its nodes.

    Three formats are recognised by the content. A file that starts with ``%%MatrixMarket`` has that format. In the rudy
    format, the first line is the number of nodes and the number of edges; the other lines are edges between nodes with
    numbers from 1. In all other files, every line is an edge: the names of two nodes and, after them, an optional
    weight. Lines that start with ``#`` or ``%``, and empty lines, are comments. Weights of repeated edges add up.
    """
    path = Path(path)
    try:
        with opened(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file; expected an edge list, rudy or MatrixMarket") from None
    if text.startswith(_MARKET):
        return _market(path, text)
    rows = [
        (number, line.replace(",", " ").split())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and line.lstrip()[0] not in "#%"
    ]
    if not rows:
        raise InputError(f"{path} has no edges")
    count = _announced(path, rows)
    if count is not None:
        nodes = [str(i) for i in range(1, count + 1)]
        rows = rows[1:]
        numbers = {name: i for i, name in enumerate(nodes)}
    else:
        numbers = {}
    ends, weights = np.empty((len(rows), 2), dtype=np.int64), np.ones(len(rows))
    for k, (line, cells) in enumerate(rows):
        if len(cells) not in (2, 3):
            raise InputError(f"{path}, line {line}: an edge has two nodes and perhaps a weight; got {len(cells)} cells")
        for side in (0, 1):
            # Names of nodes get their numbers in the order of the file.
            place = numbers.get(cells[side]) if count is not None else numbers.setdefault(cells[side], len(numbers))
            if place is None:
                raise InputError(f"{path}, line {line}: {cells[side]!r} is not a node number from 1 to {count}")
            ends[k, side] = place
        if len(cells) == 3:
            weight = parsed(cells[2])
            if weight is None or not math.isfinite(weight):
                raise InputError(f"{path}, line {line}: the weight {cells[2]!r} is not a finite number")
            weights[k] = weight
    n = len(numbers)
    upper = sp.csr_array((weights, (ends[:, 0], ends[:, 1])), (n, n))
    return sp.csr_array(upper + upper.T), list(numbers)


def _announced(path: Path, rows: list[tuple[int, list[str]]]) -> int | None:
    """Return the number of nodes if the file has the rudy format, else None."""
    first, others = rows[0][1], rows[1:]
    if len(first) != 2 or not all(cell.isascii() and cell.isdecimal() for cell in first):
        return None
    nodes, edges = map(int, first)
    # Without weights, a first line with another number of edges is an edge.
    if len(others) == edges and nodes > 0:
        if nodes > _MOST_NODES:
            raise InputError(f"{path}, line {rows[0][0]}: the file announces {nodes} nodes, more than {_MOST_NODES}")
        return nodes
    if others and all(len(cells) == 3 for _, cells in others):
        raise InputError(f"{path}, line {rows[0][0]}: the file announces {edges} edges, but has {len(others)}")
    return None


def _market(path: Path, text: str) -> tuple[sp.csr_array, list[str]]:
    header = text.splitlines()[0].split()
    if len(header) > 3 and header[3].lower() == "complex":
        raise InputError(f"{path} has complex entries; weights must be real numbers")
    try:
        with opened(path) as file:
            matrix = sp.csr_array(scipy.io.mmread(file), dtype=np.float64)
    except (ValueError, OverflowError, StopIteration) as error:
        raise InputError(f"{path} is not a valid MatrixMarket file: {one_line(error)}") from None
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{path} has shape {matrix.shape}; the adjacency matrix of a graph is square")
    return matrix, [str(i) for i in range(1, matrix.shape[0] + 1)]
