"""A server of small official files, an empty cache for every test, and embedded files."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fwflow.datasets import loading, official
from fwflow.datasets.official import Packed, catalogue
from tests.datasets.files import CONTENT, Handler, Server, pack, small, zipped


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Serves the small data set as "madelon", without retries."""
    running.bodies, running.requests = [zipped(CONTENT)], 0
    running.missing_bytes, running.announce_length = 0, True
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(catalogue, "madelon", small(running.url))
    monkeypatch.setattr(loading, "RETRIES", 0)
    return running


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty cache and no data directory."""
    monkeypatch.delenv("FWFLOW_DATA", raising=False)
    monkeypatch.setenv("FWFLOW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def shipped(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The training split of the small data set, embedded."""
    content = pack(np.array([[1, 2, 3, 1], [4, 5, 6, -1], [7, 8, 9, -1], [10, 11, 12, 1]]))
    monkeypatch.setattr(official, "FOLDER", tmp_path / "package")
    packed = Packed("small.npy.xz", hashlib.sha256(content).hexdigest(), "made up")
    packed.path.parent.mkdir()
    packed.path.write_bytes(content)
    monkeypatch.setitem(catalogue, "madelon", dataclasses.replace(small(server.url), embedded={"train": packed}))
    return packed.path
