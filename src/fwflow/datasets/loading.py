"""Where is the data? A directory of yours, then the cache, then a download if asked for, then a stand-in."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from fwflow._validation import suggest
from fwflow.datasets import generators, standins
from fwflow.datasets.archives import cache_dir, fetch, offline
from fwflow.datasets.dataset import DataError, Dataset, Kind
from fwflow.datasets.official import (
    RECONSTRUCTED,
    RECONSTRUCTED_FILE,
    Official,
    catalogue,
    find,
    is_official,
    known_variants,
    parse,
    read,
)

#: Data sets that are generated.
generated: Mapping[str, Callable[[], Dataset]] = MappingProxyType(
    {"sensing": generators.sensing, "triangle": generators.triangle}
)
_stand_ins: Mapping[str, Callable[[str], Dataset]] = MappingProxyType(
    {"madelon": standins.madelon, "gisette": standins.gisette, "movielens": standins.movielens}
)


def load(
    name: str,
    split: str | None = None,
    *,
    data_dir: str | Path | None = None,
    download: bool | None = None,
    stand_in: bool = True,
    progress: bool = False,
) -> Dataset:
    """Load a data set from the first of: your directory, the cache, a download if asked for, a stand-in.

    There is no network access unless ``download=True``. ``source`` of the result says in words what was loaded.

    Parameters
    ----------
    name : {"madelon", "gisette", "movielens", "sensing", "triangle"}
    split : str, optional
        "train" (default) or "valid" for madelon; "valid" (default), "train" or "train-reconstructed" for gisette.
        The last is not the official training split but one rebuilt from digit images; it is read from your
        directory only, and its kind is "stand-in".
    data_dir : path, optional
        A directory with official files, plain or gzipped, as ``madelon/madelon_train.data``,
        ``madelon/madelon_train.labels``, ``gisette/gisette_valid.data``, ``ml-100k/u.data`` and so on; default:
        the environment variable ``FWFLOW_DATA``. Files there that differ from the official ones are accepted if
        their structure is right, and ``source`` says so.
    download : bool, optional
        Fetch the official archive if the data is neither in the directory nor, undamaged, in the cache.
    stand_in : bool
        Fall back on seeded data of the same kind; otherwise missing data is an error.
    progress : bool
        Show the progress of a download.

    Returns
    -------
    Dataset
        ``A`` and ``b`` (labels -1/+1) for madelon and gisette; ``rows``, ``cols`` (from 0) and ``values`` (1..5) for
        movielens; see `sensing` and `triangle` for theirs. Numbers are float64, indices int64.

    Raises
    ------
    DataError
        The data is missing, damaged or could not be fetched.

    Examples
    --------
    >>> from fwflow import datasets
    >>> data = datasets.load("sensing")
    >>> data.kind, data["A"].shape, data["b"].shape
    ('generated', (500, 100), (500,))
    """
    if _check(name) in generated:
        if split is not None:
            raise ValueError(f"split={split!r} is not known; {name} is generated and has none")
        return generated[name]()
    official = catalogue[name]
    split = official.default if split is None else split
    if split not in _splits(name):
        raise ValueError(f"split={split!r} is not known; {suggest(split, _splits(name))}")

    given, cached = _folders(official, data_dir)
    if given is not None and (paths := _paths(official, split, given)):
        if len(paths) < len(_names(official, split)):
            raise DataError(f"{given} holds only a part of {name}, {split} split. {offline(name)}")
        return _reconstructed(paths[0]) if split == RECONSTRUCTED else _read(name, split, paths, pinned=False)
    if split != RECONSTRUCTED:
        if cached is not None and len(paths := _paths(official, split, cached)) == len(_names(official, split)):
            try:
                return _read(name, split, paths, pinned=True)
            except DataError:
                if not download:
                    raise
        if download:
            return _read(name, split, _paths(official, split, fetch(name, progress)), pinned=True)
    if stand_in:
        return _stand_ins[name](split)
    raise DataError(f"{name}, {split} split, is not here. Get it with: fwflow data fetch {name}. {offline(name)}")


def where(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The folder from which `load` takes files of any split, or None.

    Examples
    --------
    >>> from fwflow import datasets
    >>> datasets.where("sensing") is None
    True
    """
    _check(name)
    return next((row.where for row in available(data_dir) if row.name == name and row.where is not None), None)


class Available(NamedTuple):
    """A row of `available`: what `load` gives for a name and split, and on which terms."""

    name: str
    split: str
    found: Kind
    where: Path | None
    size: int
    terms: str


def available(data_dir: str | Path | None = None) -> list[Available]:
    """What `load` would give without a download, one row per data set and split.

    Files are looked for, not read; ``size`` is in bytes on disk, 0 for what is made on the spot.

    Examples
    --------
    >>> from fwflow import datasets
    >>> [row.found for row in datasets.available() if row.name == "triangle"]
    ['generated']
    """
    rows = []
    for name, official in catalogue.items():
        for split in _splits(name):
            row = Available(name, split, "stand-in", None, 0, official.terms)
            for folder in _folders(official, data_dir):
                paths = [] if folder is None else _paths(official, split, folder)
                if len(paths) == len(_names(official, split)):
                    size = sum(path.stat().st_size for path in paths)
                    found: Kind = "stand-in" if split == RECONSTRUCTED else "real"
                    row = row._replace(found=found, where=folder, size=size)
                    break
            rows.append(row)
    return rows + [Available(name, "", "generated", None, 0, "none") for name in generated]


def _check(name: str) -> str:
    if name not in catalogue and name not in generated:
        raise ValueError(f"name={name!r} is not known; {suggest(name, (*catalogue, *generated))}")
    return name


def _splits(name: str) -> tuple[str, ...]:
    return (*catalogue[name].splits, *((RECONSTRUCTED,) if name == "gisette" else ()))


def _names(official: Official, split: str) -> list[str]:
    return [RECONSTRUCTED_FILE] if split == RECONSTRUCTED else [file.name for file in official.splits[split]]


def _paths(official: Official, split: str, folder: Path) -> list[Path]:
    found = (find(name, folder) for name in _names(official, split))
    return [path for path in found if path is not None]


def _folders(official: Official, data_dir: str | Path | None) -> tuple[Path | None, Path | None]:
    """Where this data set would be in the user's directory and in the cache."""
    given = os.environ.get("FWFLOW_DATA") or None if data_dir is None else data_dir
    if given is not None and not Path(given).expanduser().is_dir():
        argument = "FWFLOW_DATA" if data_dir is None else "data_dir"
        raise ValueError(f"{argument} must be a directory with folders such as madelon; {str(given)!r} is not one")
    cache = cache_dir()
    return (
        None if given is None else Path(given).expanduser() / official.folder,
        None if cache is None else cache / official.folder,
    )


def _read(name: str, split: str, paths: Sequence[Path], pinned: bool) -> Dataset:
    """Real data from its files; ``pinned`` accepts official content only."""
    official = catalogue[name]
    tables, remarks = [], []
    for file, path in zip(official.splits[split], paths, strict=True):
        content = read(file, path)
        if not is_official(file, content):
            if pinned:
                raise DataError(f"{path} is damaged: it is not the official file. Repair it: fwflow data fetch {name}")
            remarks.append(f"{file.name} {_difference(content)}")
        tables.append(parse(file, content, path))
    arrays = official.arrays(tables)
    shape = official.shape or arrays["A"].shape
    what = "; ".join(remarks) or "the official files, verified by SHA-256"
    title = official.title if len(official.splits) == 1 else f"{official.title}, {split} split"
    source = f"{title}, {shape[0]} x {shape[1]}: {what}."
    return Dataset(name=name, kind="real", source=source, shape=shape, arrays=arrays)


def _difference(content: bytes) -> str:
    unknown = "differs from the official file, and only its structure was checked"
    return known_variants.get(hashlib.sha256(content).hexdigest(), unknown)


def _reconstructed(path: Path) -> Dataset:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            A, b = file["X"].astype(np.float64), file["y"].astype(np.float64)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if A.shape != (6000, 5000) or b.shape != (6000,) or not np.isin(b, (-1, 1)).all() or A.min() < 0 or A.max() > 999:
        raise DataError(f"{path}: X must be 6000 x 5000 with values 0..999, and y 6000 labels -1 and +1")
    return Dataset(
        name="gisette",
        kind="stand-in",
        source="A reconstruction of Gisette's training split, 6000 x 5000, not the official one: rebuilt from images "
        "of the digits 4 and 9 with Gisette's feature definitions, its distractor columns resampled.",
        shape=(6000, 5000),
        arrays={"A": A, "b": b},
    )
