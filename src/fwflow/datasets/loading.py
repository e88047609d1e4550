"""Search for a data set in the user's directory, the cache, a download, the package and the stand-ins.

No downloaded content is trusted before its SHA-256 is verified: a file is unpacked under a temporary name and then
renamed, and a cached file is verified again whenever it is read. Only the files of the catalogue are unpacked, under
the names in the catalogue; paths inside an archive are never used.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import numpy as np

from fwflow._storage import replacing
from fwflow._validation import Array, InputError, suggest
from fwflow.datasets import generators, official
from fwflow.datasets.dataset import DataError, Dataset, Kind
from fwflow.datasets.official import RECONSTRUCTED, RECONSTRUCTED_FILE, File, Official, catalogue, find, is_official
from fwflow.tables import read as read_table

#: Generated data sets by name.
generated: Mapping[str, Callable[[], Dataset]] = {"sensing": generators.sensing, "triangle": generators.triangle}
_stand_ins: Mapping[str, Callable[[], Dataset]] = {"movielens": generators.movielens}

#: Number of further attempts after a failed download, and seconds to wait for a response, chosen without tuning.
RETRIES = 2
TIMEOUT = 30.0


def load(
    name: str,
    split: str | None = None,
    *,
    data_dir: str | Path | None = None,
    download: bool | None = None,
    stand_in: bool = True,
    progress: bool = False,
) -> Dataset:
    """Load a data set.

    These places are tried in order: your data directory, the cache, a download (if requested), and the package. The
    licence of MovieLens forbids distribution, so it is not in the package; generated ratings replace it if it is not
    found. ``source`` of the result describes the data that was loaded.

    Parameters
    ----------
    name : {"madelon", "gisette", "movielens", "sensing", "triangle"}
        Name of the data set.
    split : str, optional
        "train" (default) or "valid" for madelon; "valid" (default), "train" or "train-reconstructed" for gisette.
        The last is not the official training split but one rebuilt from digit images. It is read from your directory
        only, and its kind is "stand-in".
    data_dir : path, optional
        Directory with official files, plain or gzipped, as ``madelon/madelon_train.data``,
        ``madelon/madelon_train.labels``, ``gisette/gisette_valid.data``, ``ml-100k/u.data`` and so on. Default: the
        environment variable ``FWFLOW_DATA``. Files that differ from the official ones are accepted if their structure
        is right, and ``source`` says so.
    download : bool, optional
        Download the official archive if the data is neither in the directory nor, undamaged, in the cache. Without it
        there is no network access.
    stand_in : bool
        Accept generated ratings if MovieLens is missing (the default); otherwise raise an error.
    progress : bool
        Show the progress of a download; False by default.

    Returns
    -------
    Dataset
        ``A`` and ``b`` (labels -1/+1) for madelon and gisette; ``rows``, ``cols`` (from 0) and ``values`` (1..5) for
        movielens; see `sensing` and `triangle` for theirs. Numbers are float64, indices int64.

    Raises
    ------
    DataError
        The data is missing, damaged or could not be fetched.

    See Also
    --------
    available : Lists the data that can be loaded.
    fetch : Downloads a data set.
    standardize : Columns of mean zero and variance one.

    Examples
    --------
    >>> from fwflow import datasets
    >>> data = datasets.load("sensing")
    >>> data.kind, data["A"].shape, data["b"].shape
    ('generated', (500, 100), (500,))
    """
    if _check(name) in generated:
        if split is not None:
            raise InputError(f"split={split!r} is not known; {name} is generated and has none")
        return generated[name]()
    entry = catalogue[name]
    split = entry.default if split is None else split
    if split not in entry.splits:
        raise InputError(f"split={split!r} is not known; {suggest(split, entry.splits)}")

    given, cached = _folders(entry, data_dir)
    if paths := _paths(entry, split, given):
        if len(paths) < len(entry.splits[split]):
            raise DataError(f"{given} holds only a part of {name}, {split} split. {_offline(entry)}")
        return _reconstructed(paths[0]) if split == RECONSTRUCTED else _read(name, split, paths, pinned=False)
    if split == RECONSTRUCTED:
        raise DataError(
            f"{name}, {split} split, is not published: put {RECONSTRUCTED_FILE} into DIR/{entry.folder}/ and "
            "name DIR with FWFLOW_DATA, data_dir= or --data"
        )
    if len(paths := _paths(entry, split, cached)) == len(entry.splits[split]):
        try:
            return _read(name, split, paths, pinned=True)
        except DataError:
            if not download:
                raise
    if download:
        return _read(name, split, _paths(entry, split, fetch(name, progress)), pinned=True)
    if packed := entry.embedded.get(split):
        origin = f"{packed.origin}, verified by checksum" + (f"; {packed.remark}" if packed.remark else "")
        return _real(name, split, official.unpack(packed), "shipped with fwflow", origin)
    if stand_in and name in _stand_ins:
        return _stand_ins[name]()
    raise DataError(f"{name}, {split} split, was not found. Get it with: fwflow data fetch {name}. {_offline(entry)}")


def where(name: str, data_dir: str | Path | None = None) -> Path | None:
    """Return the folder from which `load` reads files of any split, or None.

    Parameters
    ----------
    name : str
        Name of the data set.
    data_dir : path, optional
        Directory with official files, as for `load`.

    Returns
    -------
    Path or None

    See Also
    --------
    available : Lists the data that can be loaded.
    load : Loads the data.

    Examples
    --------
    >>> from fwflow import datasets
    >>> datasets.where("sensing") is None
    True
    """
    _check(name)
    return next((row.where for row in available(data_dir) if row.name == name and row.where is not None), None)


class Available(NamedTuple):
    """Row of `available`: the data that `load` returns for a name and split, and its terms of use.

    Attributes
    ----------
    name, split : str
        Name and split of the data set.
    found : {"real", "real, embedded", "stand-in", "generated", "missing"}
        Kind of the data that `load` returns.
    where : Path or None
        Folder of the files.
    size : int
        Size in bytes on disk; 0 for generated data.
    terms : str
        Terms of use.

    See Also
    --------
    available : Returns these rows.
    load : Loads the data.

    Examples
    --------
    >>> from fwflow import datasets
    >>> row = next(row for row in datasets.available() if row.name == "sensing")
    >>> row.found, row.size
    ('generated', 0)
    """

    name: str
    split: str
    found: Kind | Literal["real, embedded", "missing"]
    where: Path | None
    size: int
    terms: str


def available(data_dir: str | Path | None = None) -> list[Available]:
    """List the data that `load` returns without a download, one row per data set and split.

    Files are not read. ``size`` is in bytes on disk, and 0 for generated data.

    Parameters
    ----------
    data_dir : path, optional
        Directory with official files, as for `load`.

    Returns
    -------
    list of Available

    See Also
    --------
    load : Loads the data.
    fetch : Downloads a data set.
    where : Folder of the files.

    Examples
    --------
    >>> from fwflow import datasets
    >>> [row.found for row in datasets.available() if row.name == "triangle"]
    ['generated']
    """
    rows = [_available(name, split, data_dir) for name in catalogue for split in catalogue[name].splits]
    return rows + [Available(name, "", "generated", None, 0, "none") for name in generated]


def _available(name: str, split: str, data_dir: str | Path | None) -> Available:
    entry = catalogue[name]
    for folder in _folders(entry, data_dir):
        paths = _paths(entry, split, folder)
        if len(paths) == len(entry.splits[split]):
            found: Kind = "stand-in" if split == RECONSTRUCTED else "real"
            return Available(name, split, found, folder, sum(path.stat().st_size for path in paths), entry.terms)
    packed = entry.embedded.get(split)
    if packed is not None and packed.path.is_file():
        terms = f"{entry.terms}; {packed.origin}"
        return Available(name, split, "real, embedded", packed.path.parent, packed.path.stat().st_size, terms)
    return Available(name, split, "stand-in" if name in _stand_ins else "missing", None, 0, entry.terms)


def _check(name: str) -> str:
    if name not in catalogue and name not in generated:
        raise InputError(f"name={name!r} is not known; {suggest(name, (*catalogue, *generated))}")
    return name


def _paths(entry: Official, split: str, folder: Path | None) -> list[Path]:
    """Return the paths of the files of a split that are in the folder."""
    found = () if folder is None else (find(file.name, folder) for file in entry.splits[split])
    return [path for path in found if path is not None]


def _folders(entry: Official, data_dir: str | Path | None) -> tuple[Path | None, Path | None]:
    """Return the folder of this data set in the user's directory, and that in the cache."""
    given = os.environ.get("FWFLOW_DATA") or None if data_dir is None else data_dir
    if given is not None and not Path(given).expanduser().is_dir():
        argument = "FWFLOW_DATA" if data_dir is None else "data_dir"
        raise InputError(f"{argument} must be a directory with folders such as madelon; {str(given)!r} is not one")
    cache = cache_dir()
    return (
        None if given is None else Path(given).expanduser() / entry.folder,
        None if cache is None else cache / entry.folder,
    )


def _read(name: str, split: str, paths: Sequence[Path], pinned: bool) -> Dataset:
    """Read real data from its files; with `pinned`, refuse content that is not official."""
    tables, remarks = [], []
    for file, path in zip(catalogue[name].splits[split], paths, strict=True):
        content = official.read(file, path)
        if not is_official(file, content):
            if pinned:
                raise DataError(f"{path} is damaged: it is not the official file. Repair it: fwflow data fetch {name}")
            unknown = "differs from the official file, and only its structure was checked"
            remarks.append(f"{file.name} {official.known_variants.get(hashlib.sha256(content).hexdigest(), unknown)}")
        tables.append(official.parse(file, content, path))
    place = "from the cache" if pinned else "from the data directory"
    return _real(name, split, tables, place, "; ".join(remarks) or "the official files, verified by checksum")


def _real(name: str, split: str, tables: Sequence[Array], place: str, origin: str) -> Dataset:
    entry = catalogue[name]
    arrays = entry.arrays(tables)
    shape = entry.shape or arrays["A"].shape
    title = entry.title if len(entry.splits) == 1 else f"{entry.title}, {split} split"
    source = f"{title}, {shape[0]} x {shape[1]}, real data {place}: {origin}. {entry.terms}."
    return Dataset(name=name, kind="real", source=source, shape=shape, arrays=arrays)


def _reconstructed(path: Path) -> Dataset:
    try:
        table = read_table(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    A, b = table.X, table.target
    if A.shape != (6000, 5000) or b is None or not np.isin(b, (-1, 1)).all() or A.min() < 0 or A.max() > 999:
        raise DataError(f"{path}: X must be 6000 x 5000 with values 0..999, and y 6000 labels -1 and +1")
    return Dataset(
        name="gisette",
        kind="stand-in",
        source="The data is a reconstruction of the training split of Gisette (6000 x 5000). It is not the official "
        "split. It was rebuilt from images of the digits 4 and 9 with Gisette's feature definitions, and its "
        "distractor columns were drawn again.",
        shape=(6000, 5000),
        arrays={"A": A.astype(np.float64, copy=False), "b": np.asarray(b)},
    )


def cache_dir() -> Path | None:
    """Return ``FWFLOW_CACHE``, or the cache directory of the platform, or None without pooch, which finds it."""
    given = os.environ.get("FWFLOW_CACHE")
    if given:
        return Path(given).expanduser()
    with suppress(DataError):
        return Path(_pooch().os_cache("fwflow"))
    return None


def _pooch() -> Any:
    try:
        return importlib.import_module("pooch")
    except ModuleNotFoundError as error:
        raise DataError(f"{error.name} is not installed; it comes with pip install 'fwflow[data]'") from error


def _offline(entry: Official) -> str:
    """Return the advice for a machine without internet, for the end of an error message."""
    files = ", ".join(file.name for file in entry.files)
    return (
        f"Without internet, put the official files ({files}; plain or .gz) into DIR/{entry.folder}/ and name DIR "
        "with FWFLOW_DATA, data_dir= or --data."
    )


def fetch(name: str, progress: bool = False) -> Path:
    """Download a data set into the cache, unless it is there already, and return its folder.

    The cache is ``FWFLOW_CACHE``, or the cache directory of the platform. It has the layout of a ``FWFLOW_DATA``
    directory, so it can be copied to a machine without internet.

    Parameters
    ----------
    name : {"madelon", "gisette", "movielens"}
        Name of the data set.
    progress : bool
        Show a progress bar; False by default.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        The download failed, the archive is damaged, a file is not the official one, or the cache cannot be written.
        The cache is then unchanged.

    See Also
    --------
    load : Loads the data, and downloads it on request.
    available : Lists the data that can be loaded.
    """
    if name not in catalogue:
        raise InputError(f"name={name!r} is not a data set with files; {suggest(name, catalogue)}")
    entry = catalogue[name]
    pooch = _pooch()
    cache = cache_dir()
    assert cache is not None
    folder = cache / entry.folder
    paths = [(file, find(file.name, folder)) for file in entry.files]
    with suppress(DataError):
        if all(path is not None and is_official(file, official.read(file, path)) for file, path in paths):
            return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as temporary:
            archive = _download(pooch, entry, Path(temporary), progress)
            for file, content in _unpack(entry, archive).items():
                with replacing(folder / file, "wb") as unpacked:
                    unpacked.write(content)
    except DataError as error:
        raise DataError(f"{error}. {_offline(entry)}") from error.__cause__
    except OSError as error:
        raise DataError(f"the cache {folder} cannot be written ({error}); name another with FWFLOW_CACHE") from error
    return folder


def _download(pooch: Any, entry: Official, folder: Path, progress: bool) -> Path:
    http = pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT, chunk_size=2**16)

    def complete_archive(url: str, output_file: str, caller: Any) -> None:
        http(url, output_file, caller)
        if not zipfile.is_zipfile(output_file):  # The index is at the end of an archive.
            raise InputError("the downloaded file is not a complete zip archive")

    name = "archive.zip"
    manager = pooch.create(
        path=folder,
        base_url="",
        registry={name: entry.archive_hash},
        urls={name: entry.url},
        retry_if_failed=RETRIES,
    )
    log = pooch.get_logger()
    level = log.level
    log.setLevel("WARNING")
    try:
        return Path(manager.fetch(name, downloader=complete_archive))
    except (OSError, ValueError) as error:  # Errors of requests are OSErrors.
        raise DataError(f"{entry.url} could not be downloaded: {error}") from error
    finally:
        log.setLevel(level)


def _unpack(entry: Official, archive: Path) -> dict[str, bytes]:
    """Return the verified content of the expected files."""
    try:
        with zipfile.ZipFile(archive) as members:
            return {file.name: _member(file, members) for file in entry.files}
    except Exception as error:  # A damaged archive makes zipfile raise errors of many kinds.
        raise DataError(f"{entry.url} is damaged: {error}") from error


def _member(file: File, members: zipfile.ZipFile) -> bytes:
    found = [member for member in members.infolist() if PurePosixPath(member.filename).name == file.name]
    if len(found) != 1:
        raise DataError(f"the archive holds {len(found)} files named {file.name}; exactly one is expected")
    with members.open(found[0]) as stream:
        content = stream.read(file.limit + 1)
    if not is_official(file, content):
        raise DataError(f"{file.name} is not the official file; its SHA-256 is not {file.sha256}")
    return content
