"""What does a reader see first? What the paper says and a run shows, in five sentences and one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl

from fwflow.methods.catalogue import METHODS
from fwflow.reproduction.framework import Claim, Figure, Findings, Topic, Verdict
from fwflow.reproduction.style import INK, RC, colours, label, legend_below, subplots


@dataclass(frozen=True)
class Sentence:
    """What the paper says on a topic, and what its claims say about that."""

    says: str
    verdict: Verdict
    shows: str


def sentences(claims: Sequence[Claim]) -> list[Sentence]:
    """One for every topic that has claims: its cases are judged together."""
    out = []
    for topic in Topic:
        own = [claim for claim in claims if claim.topic is topic]
        said = [says for claim in own for says in claim.said]
        if said:
            parts = [f"{said.count(1)} of {len(said)} cases speak for it"]
            parts += [f"{said.count(-1)} against"] if -1 in said else []
            found = [claim.finding for claim in own if claim.finding]
            shows = " and ".join(parts) + (": " + "; ".join(found) if found else "")
            out.append(Sentence(topic.value, Verdict.of(said), shows))
    return out


def panels(findings: Sequence[Findings]) -> list[Figure]:
    """What experiments have for the first screen, and the gains of their methods by line search and momentum."""
    own = [found.overview for found in findings if found.overview is not None]
    gains = _gains([claim for found in findings for claim in found.claims])
    return own if gains is None else [*own, gains]


def _gains(claims: Sequence[Claim]) -> Figure | None:
    shown = [claim for topic in (Topic.SEARCH, Topic.MOMENTUM) for claim in claims if claim.topic is topic]
    shown = [claim for claim in shown if claim.cases]
    if not shown:
        return None
    methods = {label(m): m for m in METHODS if label(m) in {case.name for claim in shown for case in claim.cases}}
    colour = dict(zip(methods, colours(list(methods.values())).values(), strict=True))
    figure, grid = subplots(1, 1, 3.4, 3.0)
    ax = grid[0, 0]
    with mpl.rc_context(RC):
        ax.axvline(1.0, color=INK, lw=0.8)
        for row, claim in enumerate(reversed(shown)):
            for case in claim.cases:
                ax.plot(case.value, row, "o", color=colour[case.name], ms=6, label=f"{case.name}, {claim.short}")
        ax.set_yticks(range(len(shown)), [claim.short.replace(", ", "\n") for claim in reversed(shown)])
        ax.set(xscale="log", xlabel="gain over FW's", title="Gains of multistep methods", ylim=(-0.6, len(shown) - 0.4))
    legend_below(figure, colour, {}, columns=2)
    caption = "What line search and momentum gain along the run, over FW's gain: they help more right of the line."
    return Figure("overview-gains", figure, caption)
