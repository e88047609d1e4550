"""Small official files and a server for them, shared by the tests of the datasets."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import lzma
import os
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fwflow import datasets
from fwflow.datasets import DataError
from fwflow.datasets.official import File, Official, catalogue

REAL = Path(os.environ.get("FWFLOW_DATA") or Path(__file__).parents[3] / "shared" / "data")
needs_real = pytest.mark.skipif(
    not REAL.is_dir(), reason="no real data: set FWFLOW_DATA, or put it in ../shared/data beside the repository"
)

#: A data set small enough to serve, in the layout of UCI's archives.
CONTENT = {
    "SMALL/small_train.data": b"1 2 3\n4 5 6\n7 8 9\n10 11 12\n",
    "SMALL/small_train.labels": b"1\n-1\n-1\n1\n",
    "SMALL/small_valid.data": b"0 0 999\n5 5 5\n",
    "small_valid.labels": b"-1\n1\n",
    "Dataset.pdf": b"not asked for",
}


def small(url: str) -> Official:
    def file(member: str, rows: int, columns: list[range]) -> File:
        return File(Path(member).name, hashlib.sha256(CONTENT[member]).hexdigest(), rows, columns)

    features, labels = [range(1000)] * 3, [range(-1, 2, 2)]
    return dataclasses.replace(
        catalogue["madelon"],
        title="Small",
        folder="small",
        url=url,
        splits={
            "train": (file("SMALL/small_train.data", 4, features), file("SMALL/small_train.labels", 4, labels)),
            "valid": (file("SMALL/small_valid.data", 2, features), file("small_valid.labels", 2, labels)),
        },
        embedded={},
    )


def missing(name: str, split: str | None = None, data_dir: Path | None = None) -> bool:
    """Whether the data is nowhere."""
    try:
        datasets.load(name, split, data_dir=data_dir)
    except DataError as error:
        return "was not found" in str(error)
    return False


def zipped(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """Answers every request with the next of ``bodies``, the last one from then on."""

    daemon_threads = True
    bodies: list[bytes]
    requests: int
    missing_bytes: int
    announce_length: bool

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/small.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.bodies.pop(0) if len(self.server.bodies) > 1 else self.server.bodies[0]
        self.server.requests += 1
        self.send_response(200)
        if self.server.announce_length:
            self.send_header("Content-Length", str(len(body) + self.server.missing_bytes))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def fill(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    """A user's directory with the small data set."""
    (folder / "small").mkdir(parents=True, exist_ok=True)
    for member, data in content.items():
        (folder / "small" / Path(member).name).write_bytes(data)
    return folder


def pack(table: np.ndarray) -> bytes:
    """How the packed files were made."""
    buffer = io.BytesIO()
    np.save(buffer, np.asfortranarray(table.astype("<i2")), allow_pickle=False)
    return lzma.compress(
        buffer.getvalue(),
        filters=[{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 3, "lp": 1, "pb": 1}],
    )
