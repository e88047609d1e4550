"""Synthetic power grids that ship inside the package: the lines of three networks.

A packed file is an array of two rows of 32-bit integers, compressed with xz: the differences between successive tails,
which are sorted, and the differences between head and tail of every line. Both compress better than bus numbers.
"""

from __future__ import annotations

import numpy as np

from fwflow._validation import InputError
from fwflow.datasets.dataset import Dataset
from fwflow.datasets.official import Packed, content_of

_TERMS = (
    "Texas A&M University electric grid test cases; Birchfield, Xu, Gegner, Shetye, Overbye 2017, "
    "doi:10.1109/TPWRS.2016.2616385; CC BY 4.0"
)
#: Packed files by the number of buses.
FILES = {
    buses: Packed(f"grid_{buses}.npy.xz", digest, "branches of the test case, parallel ones joined")
    for buses, digest in {
        2_000: "330d6668cc3420bc85d575445745ffbb24360f1cc365de76f0fefd61ee19eae6",
        10_000: "98e356bb0ecef7e74fb4c722e9887cdf7afdc891cc981f7673f6aaa30a4962d0",
        70_000: "bcc545b94f9e91b67b00adb46a682c7eb9bf4b87ca491bdcf604d54c34b2fe33",
    }.items()
}


def power_grid(buses: int = 70_000) -> Dataset:
    """Load the lines of a synthetic power grid.

    The grids are the test cases ACTIVSg2000, ACTIVSg10k and ACTIVSg70k. They resemble the networks of Texas, of the
    western and of the eastern United States, but contain no data of real networks.

    Parameters
    ----------
    buses : {2000, 10000, 70000}
        Number of buses; 70000 by default.

    Returns
    -------
    Dataset
        ``tails`` and ``heads``: the two buses of every line, counted from 0. No two lines join the same buses.

    See Also
    --------
    load : Other data sets.
    fwflow.semidefinite.maxcut : Maximum cuts.

    Examples
    --------
    >>> from fwflow import datasets
    >>> grid = datasets.power_grid(2000)
    >>> grid.shape, len(grid["tails"])
    ((2000, 2000), 2667)
    """
    if buses not in FILES:
        raise InputError(f"buses must be one of {', '.join(map(str, FILES))}; got {buses!r}")
    packed = FILES[buses]
    steps, lengths = content_of(packed).astype(np.int64)
    tails = np.cumsum(steps)
    return Dataset(
        name=f"power grid with {buses} buses",
        kind="real",
        source=f"Synthetic power grid, {buses} buses, shipped with fwflow: {packed.origin}. {_TERMS}.",
        shape=(buses, buses),
        arrays={"tails": tails, "heads": tails + lengths},
    )
