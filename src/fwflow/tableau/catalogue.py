"""Catalogue of tableaus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from fwflow._validation import InputError, suggest
from fwflow.tableau.scheme import Tableau

#: Names of the catalogue for type checkers and editors; a test compares them with the catalogue.
TableauName = Literal[
    "euler",
    "midpoint",
    "heun",
    "ralston",
    "kutta3",
    "ssprk3",
    "bs3",
    "rk44",
    "rk38",
    "rk5",
    "dp5",
]


def _read(name: str, drawing: str) -> Tableau:
    """Return the tableau of a drawing, whose omega are the row sums."""
    *lower, beta = ([Fraction(entry) for entry in line.split()] for line in drawing.strip().splitlines())
    rows = [row + [Fraction(0)] * (len(beta) - len(row)) for row in ([], *lower)]
    numbers = [[float(a) for a in row] for row in rows]
    return Tableau(numbers, [float(b) for b in beta], [float(sum(row)) for row in rows], name)


# Tableaus by name and by label in figures, drawn as in textbooks: the rows of A below the diagonal, then beta.
# Dormand-Prince 5 and Bogacki-Shampine 3 come without their last stage. It has beta = 0 and serves only an error
# estimate and the first stage of the next step.
_DRAWINGS = {
    ("euler", "FW"): """
        1
    """,
    ("midpoint", "Midpoint"): """
        1/2
        0    1
    """,
    ("heun", "Heun"): """
        1
        1/2  1/2
    """,
    ("ralston", "Ralston"): """
        2/3
        1/4  3/4
    """,
    ("kutta3", "Kutta 3"): """
        1/2
        -1   2
        1/6  2/3  1/6
    """,
    ("ssprk3", "SSP-RK3"): """
        1
        1/4  1/4
        1/6  1/6  2/3
    """,
    ("bs3", "Bogacki-Shampine 3"): """
        1/2
        0    3/4
        2/9  1/3  4/9
    """,
    ("rk44", "RK44"): """
        1/2
        0    1/2
        0    0    1
        1/6  1/3  1/3  1/6
    """,
    ("rk38", "RK 3/8"): """
        1/3
        -1/3 1
        1    -1   1
        1/8  3/8  3/8  1/8
    """,
    ("rk5", "RK5"): """
        1/4
        1/8   1/8
        0     -1/2  1
        3/16  0     0      9/16
        -3/7  2/7   12/7   -12/7  8/7
        7/90  0     32/90  12/90  32/90  7/90
    """,
    ("dp5", "Dormand-Prince 5"): """
        1/5
        3/40        9/40
        44/45       -56/15       32/9
        19372/6561  -25360/2187  64448/6561  -212/729
        9017/3168   -355/33      46732/5247  49/176    -5103/18656
        35/384      0            500/1113    125/192   -2187/6784   11/84
    """,
}

#: The catalogue: every entry is a method of :func:`fwflow.minimize`.
tableaus: Mapping[str, Tableau] = MappingProxyType({name: _read(name, text) for (name, _), text in _DRAWINGS.items()})

#: Names of tableaus in figures.
LABELS: Mapping[str, str] = MappingProxyType({"fw": "FW", **dict(_DRAWINGS.keys())})

#: Places in the palette of figures of the tableaus that the paper draws.
COLOURS: Mapping[str, int] = MappingProxyType({"fw": 0, "euler": 0, "midpoint": 1, "rk44": 2, "rk38": 3, "rk5": 4})


def find_tableau(name: str, others: Iterable[str] = ()) -> Tableau:
    """Return the tableau of that name, where "fw" is Euler's method, or the one in a .toml or .json file."""
    if name.endswith((".toml", ".json")):
        return Tableau.from_file(name)
    if name != "fw" and name not in tableaus:
        raise InputError(f"method={name!r} is not known; {suggest(name, [*others, 'fw', *tableaus])}")
    return tableaus["euler" if name == "fw" else name]
