"""Data of the experiments: generated problems, real data sets that are verified, and one stand-in.

Madelon and the validation split of Gisette ship inside the package. The environment variable ``FWFLOW_DATA`` names a
directory with official files, which is searched first, and ``FWFLOW_CACHE`` the directory for downloads. Nothing is
downloaded unless requested. Downloads need the extra ``data``.

>>> from fwflow import datasets
>>> datasets.load("triangle")["start"]
array([0., 1.])
"""

from fwflow.datasets.dataset import DataError, Dataset, standardize
from fwflow.datasets.generators import sensing, triangle
from fwflow.datasets.grids import power_grid
from fwflow.datasets.loading import Available, available, fetch, load, where

__all__ = [
    "Available",
    "DataError",
    "Dataset",
    "available",
    "fetch",
    "load",
    "power_grid",
    "sensing",
    "standardize",
    "triangle",
    "where",
]
