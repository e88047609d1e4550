"""Download of the official files into the cache.

No content is trusted before its SHA-256 is verified: a file is unpacked under a temporary name and then renamed, and a
cached file is verified again whenever it is read. Only the files of the catalogue are unpacked, under the names in the
catalogue; paths inside an archive are never used.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from fwflow._storage import replacing
from fwflow._validation import InputError, suggest
from fwflow.datasets.dataset import DataError
from fwflow.datasets.official import File, Official, catalogue, find, is_official, read

#: Number of further attempts after a failed download, and seconds to wait for a response, chosen without tuning.
RETRIES = 2
TIMEOUT = 30.0


def cache_dir() -> Path | None:
    """Return ``FWFLOW_CACHE``, or the cache directory of the platform, or None without pooch, which finds it."""
    given = os.environ.get("FWFLOW_CACHE")
    if given:
        return Path(given).expanduser()
    try:
        return Path(_pooch().os_cache("fwflow"))
    except DataError:
        return None


def _pooch() -> Any:
    try:
        return importlib.import_module("pooch")
    except ModuleNotFoundError as error:
        raise DataError(f"{error.name} is not installed; it comes with pip install 'fwflow[data]'") from error


def offline(official: Official) -> str:
    """Return the advice for a machine without internet, for the end of an error message."""
    files = ", ".join(file.name for file in official.files)
    return (
        f"Without internet, put the official files ({files}; plain or .gz) into DIR/{official.folder}/ and name DIR "
        "with FWFLOW_DATA, data_dir= or --data."
    )


def fetch(name: str, progress: bool = False) -> Path:
    """Download a data set into the cache, unless it is there already, and return its folder.

    The cache is ``FWFLOW_CACHE``, or the cache directory of the platform. It has the layout of a ``FWFLOW_DATA``
    directory, so it can be copied to a machine without internet.

    Parameters
    ----------
    name : {"madelon", "gisette", "movielens"}
    progress : bool
        Show a progress bar.

    Raises
    ------
    DataError
        The download failed, the archive is damaged, a file is not the official one, or the cache cannot be written.
        The cache is then unchanged.
    """
    if name not in catalogue:
        raise InputError(f"name={name!r} is not a data set with files; {suggest(name, catalogue)}")
    official = catalogue[name]
    pooch = _pooch()
    cache = cache_dir()
    assert cache is not None
    folder = cache / official.folder
    if is_complete(official, folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as temporary:
            archive = _download(pooch, official, Path(temporary), progress)
            for file, content in _unpack(official, archive).items():
                with replacing(folder / file, "wb") as unpacked:
                    unpacked.write(content)
    except DataError as error:
        raise DataError(f"{error}. {offline(official)}") from error.__cause__
    except OSError as error:
        raise DataError(f"the cache {folder} cannot be written ({error}); name another with FWFLOW_CACHE") from error
    return folder


def is_complete(official: Official, folder: Path) -> bool:
    """Return whether the folder holds all official files, unchanged."""
    paths = [(file, find(file.name, folder)) for file in official.files]
    try:
        return all(path is not None and is_official(file, read(file, path)) for file, path in paths)
    except DataError:
        return False


def _download(pooch: Any, official: Official, folder: Path, progress: bool) -> Path:
    http = pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT, chunk_size=2**16)

    def complete_archive(url: str, output_file: str, caller: Any) -> None:
        http(url, output_file, caller)
        if not zipfile.is_zipfile(output_file):  # The index is at the end of an archive.
            raise InputError("the downloaded file is not a complete zip archive")

    name = "archive.zip"
    manager = pooch.create(
        path=folder,
        base_url="",
        registry={name: official.archive_hash},
        urls={name: official.url},
        retry_if_failed=RETRIES,
    )
    log = pooch.get_logger()
    level = log.level
    log.setLevel("WARNING")
    try:
        return Path(manager.fetch(name, downloader=complete_archive))
    except (OSError, ValueError) as error:  # Errors of requests are OSErrors.
        raise DataError(f"{official.url} could not be downloaded: {error}") from error
    finally:
        log.setLevel(level)


def _unpack(official: Official, archive: Path) -> dict[str, bytes]:
    """Return the verified content of the expected files."""
    try:
        with zipfile.ZipFile(archive) as members:
            return {file.name: _member(file, members) for file in official.files}
    except Exception as error:  # A damaged archive makes zipfile raise errors of many kinds.
        raise DataError(f"{official.url} is damaged: {error}") from error


def _member(file: File, members: zipfile.ZipFile) -> bytes:
    found = [member for member in members.infolist() if PurePosixPath(member.filename).name == file.name]
    if len(found) != 1:
        raise DataError(f"the archive holds {len(found)} files named {file.name}; exactly one is expected")
    with members.open(found[0]) as stream:
        content = stream.read(file.limit + 1)
    if not is_official(file, content):
        raise DataError(f"{file.name} is not the official file; its SHA-256 is not {file.sha256}")
    return content
