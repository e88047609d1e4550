"""Constraint sets of the coefficients of a table, described by text such as ``l1:10`` and by bounds on columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

import fwflow as fw
from fwflow._validation import Array, InputError, parsed, positive, suggest
from fwflow.tables.frames import near
from fwflow.tables.parts import Made

#: Sets by name: the constructor and the names of its arguments. The radius is the last argument.
SETS: Mapping[str, tuple[Callable[..., fw.ConstraintSet], tuple[str, ...]]] = MappingProxyType(
    {
        "l1": (fw.L1Ball, ("R",)),
        "l2": (fw.L2Ball, ("R",)),
        "linf": (fw.LInfBall, ("R",)),
        "simplex": (fw.Simplex, ("R",)),
        "positive": (fw.UnitSimplex, ("R",)),
        "group": (fw.GroupBall, ("R",)),
        "box": (fw.Box, ("LO", "HI")),
    }
)
# Default arguments of sets. The arguments of other sets are required.
_DEFAULTS = {"simplex": (1.0,)}
#: Names of the sets whose only argument is a radius.
FAMILIES = tuple(name for name, (_, parameters) in SETS.items() if parameters == ("R",))
# Sets that can have bounds on single coefficients.
_BOUNDED = ("l1", "positive", "linf", "simplex", "box")


def usage(name: str) -> str:
    """Return the name of a set with its arguments; arguments in brackets are optional."""
    numbers = ",".join(SETS[name][1])
    return f"{name}[:{numbers}]" if name in _DEFAULTS else f"{name}:{numbers}"


@dataclass(frozen=True)
class Constraint:
    """Constraint set of the coefficients of a table.

    Attributes
    ----------
    name : str
        Name of the set, a key of ``SETS``. In a ball of groups, the levels of a category are a group, as are the months
        and the weekdays of a date; every other column is a group of its own.
    numbers : tuple of float
        Arguments of the set; empty if the radius is chosen later.
    lower, upper : mapping of str to float
        Bounds on coefficients in original units, by the name of a column of the table, which stands for all columns
        that are made of it, or by the name of a prepared column such as ``city=Rome``.

    See Also
    --------
    fwflow.tables.problem.read_problem : Objective of a table.
    fwflow.tables.selection.select : Choice of the radius by cross-validation.
    fwflow.BoundedL1Ball : L1 ball with bounds.
    fwflow.GroupBall : Ball of groups.

    Examples
    --------
    >>> from fwflow.tables.problem import read_problem
    >>> problem = read_problem({"age": [30, 40, 50], "city": ["Rome", "Oslo", "Rome"], "y": [1.0, 2.0, 4.0]}, "y")
    >>> constraint = Constraint.parse("l1:10", lower=["age=0"])
    >>> constraint.text, constraint.on(problem.made, problem.f.shape).lower.tolist()
    ('l1:10; age >= 0', [0.0, -inf, -inf])
    >>> Constraint.parse("group:2").on(problem.made, problem.f.shape)
    GroupBall(2 groups of 3 entries, 2, p=2)
    """

    name: str
    numbers: tuple[float, ...] = ()
    lower: Mapping[str, float] = field(default_factory=dict)
    upper: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def parse(text: str, lower: Iterable[str] = (), upper: Iterable[str] = (), *, radius: bool = True) -> Constraint:
        """Return the set that a text such as ``l1:10`` describes, with bounds such as ``age=0``.

        Parameters
        ----------
        text : str
            Name of the set, with its arguments after a colon.
        lower, upper : iterables of str
            Bounds, as ``COLUMN=VALUE`` in original units.
        radius : bool
            Whether the arguments are required. If False, the text is the name of a set with a radius.

        Returns
        -------
        Constraint
        """
        name, colon, rest = text.lower().partition(":")
        if name not in (SETS if radius else FAMILIES):
            known: Sequence[str] = (*SETS,) if radius else FAMILIES
            what = "is not known" if radius else "is no set with a radius"
            raise InputError(f"--set {text!r} {what}; {suggest(name, known)}" + ("; for example l1:10" * radius))
        if not radius and colon:
            raise InputError(f"--set {text} gives a radius, which is chosen here; use --set {name}")
        bounds = {option: _bounds(option, given) for option, given in (("--lower", lower), ("--upper", upper))}
        found = Constraint(name, _numbers(name, text, rest) if radius else (), bounds["--lower"], bounds["--upper"])
        if (bounds["--lower"] or bounds["--upper"]) and name not in _BOUNDED:
            raise InputError(f"--lower and --upper are for --set {', '.join(_BOUNDED)}; got --set {text}")
        for column in found.lower.keys() & found.upper.keys():
            if found.lower[column] > found.upper[column]:
                raise InputError(
                    f"--lower {column}={found.lower[column]:g} is above --upper {column}={found.upper[column]:g}"
                )
        return found

    @property
    def bounds_text(self) -> str:
        """The bounds as text that follows the name of the set; empty if there are none."""
        return "".join(
            f"; {column} {sign} {value:g}"
            for sign, bounds in ((">=", self.lower), ("<=", self.upper))
            for column, value in bounds.items()
        )

    @property
    def text(self) -> str:
        """The set with its numbers and bounds."""
        numbers = ",".join(f"{number:.15g}" for number in self.numbers)
        return f"{self.name}{':' * bool(numbers)}{numbers}{self.bounds_text}"

    def at(self, radius: float) -> str:
        """Return the text of the set with a chosen radius, to six significant digits."""
        return f"{self.name}:{radius:.6g}{self.bounds_text}"

    def check(self, columns: Sequence[Made], classes: Sequence[str] | None) -> None:
        """Refuse bounds on columns that do not exist, and bounds on the coefficients of more than two classes."""
        if classes is not None and len(classes) > 2 and (self.name == "positive" or self.lower or self.upper):
            option = "--positive" if self.name == "positive" else "--lower" if self.lower else "--upper"
            raise InputError(
                f"{option} is for numbers and two classes; there are {len(classes)} classes, whose probabilities "
                "depend on differences of coefficients only"
            )
        for option, bounds in (("--lower", self.lower), ("--upper", self.upper)):
            for name in bounds:
                if not _places(name, columns):
                    names = list(dict.fromkeys(name for made in columns for name in (made.source, made.name)))
                    raise InputError(f"the model has no column {name!r} ({option}); {near(name, names)}")

    def on(self, columns: Sequence[Made], shape: tuple[int, ...]) -> fw.ConstraintSet:
        """Return the set of coefficients of the given shape, whose first axis belongs to the prepared columns."""
        return self._with(self.numbers, columns, shape)

    def ball(self, columns: Sequence[Made], shape: tuple[int, ...]) -> Callable[[float], fw.ConstraintSet]:
        """Return the sets as a function of their radius."""
        if (self.lower or self.upper) and self.name == "simplex":
            raise InputError(
                "a simplex with bounds has members for some sums only; give the sum, for example --set simplex:1"
            )
        if excluded := [*(c for c, v in self.lower.items() if v > 0), *(c for c, v in self.upper.items() if v < 0)]:
            raise InputError(
                f"the bounds on {excluded[0]!r} exclude zero, so that small radii have no member; give the radius, for "
                f"example --set {self.name}:10"
            )
        return lambda radius: self._with((radius,), columns, shape)

    def _with(self, numbers: Sequence[float], columns: Sequence[Made], shape: tuple[int, ...]) -> fw.ConstraintSet:
        if self.name == "group":
            places = {name: place for place, name in enumerate(dict.fromkeys(made.column for made in columns))}
            labels = np.array([places[made.column] for made in columns])
            return fw.GroupBall(np.repeat(labels, math.prod(shape[1:])), *numbers)
        if not self.lower and not self.upper:
            return SETS[self.name][0](*numbers)
        least, most = _limits(self.lower, columns, -math.inf), _limits(self.upper, columns, math.inf)
        try:
            if self.name == "simplex":
                return fw.BoundedSimplex(numbers[0], np.where(np.isinf(least), 0.0, least), most)
            if self.name == "positive":
                least = np.maximum(least, 0.0)
            if self.name in ("l1", "positive"):
                return fw.BoundedL1Ball(numbers[0], least, most)
            low, high = numbers if self.name == "box" else (-numbers[0], numbers[0])
            return fw.Box(np.maximum(least, low), np.minimum(most, high))
        except ValueError as error:
            raise InputError(f"--set {replace(self, numbers=tuple(numbers)).text}: {error}") from error


def as_constraint(constraint: str | Constraint) -> Constraint:
    """Return a set whose radius is chosen later, such as ``l1``."""
    return Constraint.parse(constraint, radius=False) if isinstance(constraint, str) else constraint


def _numbers(name: str, text: str, rest: str) -> tuple[float, ...]:
    """Return the numbers of a set, and refuse those that it does not accept."""
    make, parameters = SETS[name]
    numbers: tuple[Any, ...] = tuple(map(parsed, rest.split(","))) if rest else _DEFAULTS.get(name, ())
    if not numbers and name in FAMILIES:
        raise InputError(f"--set {text} needs a radius, as in {name}:10, or --cv 5, which chooses the radius")
    if len(numbers) != len(parameters) or None in numbers:
        example = f"{name}:{'0,1' if len(parameters) == 2 else '10'}"
        raise InputError(f"--set {text!r} must be {usage(name)}, with numbers; for example {example}")
    try:
        if name == "group":
            positive(numbers[0], "radius")
        else:
            make(*numbers)
    except ValueError as error:
        raise InputError(f"--set {text!r}: {error}") from error
    return numbers


def _bounds(option: str, given: Iterable[str]) -> dict[str, float]:
    """Return the bounds that an option gives, by column. The value follows the last equals sign."""
    found: dict[str, float] = {}
    for text in given:
        column, sign, value = text.rpartition("=")
        number = parsed(value)
        if not sign or not column or number is None or not math.isfinite(number):
            raise InputError(f"{option} must be COLUMN=NUMBER, for example {option} age=0; got {text!r}")
        if column in found:
            raise InputError(f"{option} names {column!r} twice; give one bound")
        found[column] = number
    return found


def _places(name: str, columns: Sequence[Made]) -> list[int]:
    """Return the positions of the prepared columns of a name: its own, or those that are made of a column."""
    for names in zip(*((made.name, made.column, made.source) for made in columns), strict=True):
        if places := [place for place, other in enumerate(names) if other == name]:
            return places
    return []


def _limits(bounds: Mapping[str, float], columns: Sequence[Made], default: float) -> Array:
    """Return the bounds on the coefficients of prepared columns. A part of a table may lack some of the columns."""
    limits = np.full(len(columns), default)
    units = np.array([made.unit for made in columns])
    for name, value in bounds.items():
        places = _places(name, columns)
        limits[places] = value / units[places]
    return limits
