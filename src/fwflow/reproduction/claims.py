"""Statements of the paper, the rules that judge them, and the verdicts of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

#: Ratios between 1/NOISE and NOISE count as equal to one. Chosen without tuning.
NOISE = 1.05


@dataclass(frozen=True)
class VerdictRule:
    """Intervals that turn the number of a case into a vote on a statement.

    A number in `supports` is a vote for the statement, a number outside `tolerates` a vote against it. The report
    prints `words` beside the verdict; `HOW_JUDGED` says when the rules were fixed.
    """

    words: str
    supports: tuple[float, float]
    tolerates: tuple[float, float]

    @classmethod
    def above(cls, words: str, bar: float = 1.0, noise: float = NOISE) -> VerdictRule:
        """Return the rule that a number supports if it exceeds the bar by the factor `noise`."""
        return cls(words, (bar * noise, math.inf), (bar / noise, math.inf))

    @classmethod
    def below(cls, words: str, bar: float = 1.0, noise: float = NOISE) -> VerdictRule:
        """Return the rule that a number supports if it is below the bar by the factor `noise`."""
        return cls(words, (-math.inf, bar / noise), (-math.inf, bar * noise))

    def vote(self, value: float) -> int:
        """Return 1 for the statement, -1 against it, 0 for neither."""
        if self.supports[0] <= value <= self.supports[1]:
            return 1
        return 0 if self.tolerates[0] <= value <= self.tolerates[1] else -1


class Verdict(Enum):
    """Result of a run for a statement of the paper."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    FAILS = "does not hold"
    UNTESTABLE = "not testable here"

    @classmethod
    def of(cls, votes: Sequence[int]) -> Verdict:
        """Return the verdict for the votes of all cases, by the rule in `HOW_JUDGED`."""
        if not votes:
            return cls.UNTESTABLE
        pro, contra = votes.count(1), votes.count(-1)
        if 2 * pro > len(votes) and not contra:
            return cls.HOLDS
        return cls.PARTLY if pro and pro >= contra else cls.FAILS


#: Description of `Verdict.of` for the reader of a report.
HOW_JUDGED = (
    "Each statement is tested on the cases named beside it: methods, data sets, or both. By the rule given there, a "
    "case speaks for the statement, against it (the opposite holds by more than the noise), or neither. The rules were "
    "written before the gains along the runs of E3 to E6 were computed, but after earlier figures of E2, of the ends "
    "of runs and of compressed sensing were known. A statement holds if more than half of its cases speak for it and "
    "none against. It holds in part if some cases speak for it and no more speak against it, and fails otherwise."
)


class Topic(Enum):
    """Main statements of the paper, one sentence each."""

    FLOW = (
        "The flow converges at the rate that its schedule sets, and Frank-Wolfe follows it down to a floor that "
        "depends on its time step"
    )
    ZIGZAG = (
        "Zig-zagging is an artefact of discretisation: it shrinks with the time step and with the order of the method"
    )
    SEARCH = "Multistep methods find better directions, so that line search helps them more than Frank-Wolfe"
    MOMENTUM = "For the same reason, momentum helps multistep methods more than Frank-Wolfe"
    RATE = "Even so, no Runge-Kutta method whose weights cannot cancel improves on the rate 1/k of Frank-Wolfe"


@dataclass(frozen=True)
class Case:
    """Method or data set on which a statement is tested, its number, and the number in the paper, or NaN."""

    name: str
    value: float
    printed: float = math.nan


@dataclass(frozen=True)
class Claim:
    """Statement, and the cases of a run that test it. The last three fields are for the summary of a report."""

    statement: str
    source: str  # place in the paper; empty for statements that go beyond it
    rule: VerdictRule
    cases: tuple[Case, ...]  # those whose value is NaN are dropped
    number: str  # description of the numbers of the cases
    finding: str = ""
    topic: Topic | None = None
    short: str = ""  # name in the figure of the summary

    def __post_init__(self) -> None:
        object.__setattr__(self, "cases", tuple(case for case in self.cases if not math.isnan(case.value)))

    @property
    def votes(self) -> list[int]:
        """The vote of every case: 1, 0 or -1."""
        return [self.rule.vote(case.value) for case in self.cases]

    @property
    def verdict(self) -> Verdict:
        """The verdict for the votes of all cases."""
        return Verdict.of(self.votes)

    def shown(self, case: Case) -> str:
        """Return the number of a case with three significant digits, or with more if rounding changes its vote."""
        texts = (f"{case.value:.{digits}g}" for digits in range(3, 18))
        return next(text for text in texts if self.rule.vote(float(text)) == self.rule.vote(case.value))
