"""Summary at the top of a report: a sentence for each topic of the paper, and figures."""

from __future__ import annotations

from collections.abc import Sequence

from fwflow.methods.catalogue import METHODS
from fwflow.reproduction.claims import Claim, Topic, Verdict
from fwflow.reproduction.framework import Figure, Findings
from fwflow.reproduction.style import INK, colours, in_style, label, legend_below, subplots


def sentences(claims: Sequence[Claim]) -> list[tuple[str, Verdict, str]]:
    """Return statement, verdict and evidence for every topic that has claims, whose cases are judged together."""
    out = []
    for topic in Topic:
        own = [claim for claim in claims if claim.topic is topic]
        votes = [vote for claim in own for vote in claim.votes]
        if votes:
            evidence = f"{votes.count(1)} of {len(votes)} cases speak for it"
            evidence += f" and {votes.count(-1)} against" if -1 in votes else ""
            findings = "; ".join(claim.finding for claim in own if claim.finding)
            out.append((topic.value, Verdict.of(votes), f"{evidence}: {findings}" if findings else evidence))
    return out


def panels(findings: Sequence[Findings]) -> list[Figure]:
    """Return the figures of experiments for the summary, and the gains of their methods by line search and momentum."""
    own = [found.overview for found in findings if found.overview is not None]
    gains = _gains([claim for found in findings for claim in found.claims if claim.cases])
    return own if gains is None else [*own, gains]


@in_style
def _gains(claims: Sequence[Claim]) -> Figure | None:
    shown = [claim for topic in (Topic.SEARCH, Topic.MOMENTUM) for claim in claims if claim.topic is topic]
    if not shown:
        return None
    methods = {label(m): m for m in METHODS if label(m) in {case.name for claim in shown for case in claim.cases}}
    colour = dict(zip(methods, colours(list(methods.values())).values(), strict=True))
    figure, grid = subplots(1, 1, 3.4, 3.0)
    ax = grid[0, 0]
    ax.axvline(1.0, color=INK, lw=0.8)
    for row, claim in enumerate(reversed(shown)):
        for case in claim.cases:
            ax.plot(case.value, row, "o", color=colour[case.name], ms=6, label=f"{case.name}, {claim.short}")
    ax.set_yticks(range(len(shown)), [claim.short.replace(", ", "\n") for claim in reversed(shown)])
    ax.set(xscale="log", xlabel="gain over FW's", title="Gains of multistep methods", ylim=(-0.6, len(shown) - 0.4))
    legend_below(figure, colour, {}, columns=2)
    caption = (
        "Gains of multistep methods by line search and by momentum along the run, relative to FW's gain. "
        "Right of the line they gain more than FW."
    )
    return Figure("overview-gains", figure, caption)
