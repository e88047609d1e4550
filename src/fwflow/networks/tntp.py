"""How are networks written down? The text files of the Transportation Network Test Problems, read strictly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import NoReturn

import numpy as np

from fwflow._validation import Array, InputError, number, parsed
from fwflow.networks.network import Links, Network

_TAG = re.compile(r"<([^<>]*)>(.*)")
_WHOLE = re.compile(r"[0-9]{1,15}")
_COLUMNS = [field.name for field in fields(Links)]


def read_tntp(
    net_path: str | PathLike[str],
    trips_path: str | PathLike[str],
    toll_weight: float = 0.0,
    distance_weight: float = 0.0,
) -> Network:
    """A network and its trips from two files of the TNTP format (github.com/bstabler/TransportationNetworks).

    Anything that is not as the format says is an error with the file and the line.

    Parameters
    ----------
    net_path, trips_path : path
        Files such as ``SiouxFalls_net.tntp`` and ``SiouxFalls_trips.tntp``.
    toll_weight, distance_weight : float
        What a unit of toll and of length costs, in units of time.

    Examples
    --------
    >>> import fwflow as fw, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> zones, end = "<NUMBER OF ZONES> 2\\n", "<END OF METADATA>\\n"
    >>> tags = zones + "<NUMBER OF NODES> 2\\n<FIRST THRU NODE> 1\\n<NUMBER OF LINKS> 1\\n" + end
    >>> _ = (folder / "net").write_text(tags + "~ tail head ...\\n1 2 100 1 6 0.15 4 0 0 1 ;")
    >>> _ = (folder / "trips").write_text(zones + end + "Origin 1\\n 2 : 50;")
    >>> network = fw.networks.read_tntp(folder / "net", folder / "trips")
    >>> network, network.flows.start()
    (Network(1 links, 2 nodes, 2 zones), array([50.]))
    """
    toll_weight = number(toll_weight, "toll_weight", "be at least 0 and finite", lambda w: 0 <= w < np.inf)
    distance_weight = number(distance_weight, "distance_weight", "be at least 0 and finite", lambda w: 0 <= w < np.inf)
    net, trips = _File.read(net_path), _File.read(trips_path)
    zones, n_nodes = net.whole("NUMBER OF ZONES"), net.whole("NUMBER OF NODES")
    if zones > n_nodes:
        net.refuse(net.tags["NUMBER OF ZONES"][0], f"there are {zones} zones, but {n_nodes} nodes")
    if trips.whole("NUMBER OF ZONES") != zones:
        trips.refuse(trips.tags["NUMBER OF ZONES"][0], f"{net.path.name} has {zones} zones")
    first_through = net.whole("FIRST THRU NODE") - 1
    links, demand = _links(net, n_nodes), _demand(trips, zones)
    network = Network(links, demand, n_nodes, first_through, toll_weight, distance_weight)
    try:
        _ = network.flows
    except ValueError as error:
        raise InputError(f"{trips.path}: {error} (counted from 0, where the file counts from 1)") from None
    return network


@dataclass(frozen=True)
class _File:
    """The lines of a file after its metadata, without comments, and the tags in it; all with their line numbers."""

    path: Path
    tags: dict[str, tuple[int, str]]
    lines: list[tuple[int, str]]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> _File:
        file = cls(Path(path), {}, [])
        try:
            text = file.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is no text file: {error}") from None
        for i, line in enumerate(text.split("\n"), 1):
            stripped, tag = line.strip(), _TAG.fullmatch(line.strip())
            if "END OF METADATA" in file.tags:
                if stripped and not stripped.startswith("~"):
                    if not stripped.isascii():
                        file.refuse(i, f"{stripped[:40]!r} must be numbers, in ASCII")
                    file.lines.append((i, stripped))
            elif tag:
                name = tag[1].strip().upper()
                if name in file.tags:
                    file.refuse(i, f"<{name}> was given before, on line {file.tags[name][0]}")
                file.tags[name] = (i, tag[2].strip())
            elif stripped and not stripped.startswith("~"):
                file.refuse(i, f"{stripped[:40]!r} is no <TAG>, and <END OF METADATA> has not been reached")
        if "END OF METADATA" not in file.tags:
            file.refuse(len(text.split("\n")), "the file ends before <END OF METADATA>")
        return file

    def refuse(self, line: int, what: str) -> NoReturn:
        raise InputError(f"{self.path}, line {line}: {what}")

    def whole(self, tag: str) -> int:
        """The value of a tag that must be there: a number of things, at least one."""
        if tag not in self.tags:
            self.refuse(self.tags["END OF METADATA"][0], f"<{tag}> is missing")
        line, text = self.tags[tag]
        if not _WHOLE.fullmatch(text) or int(text) < 1:
            self.refuse(line, f"<{tag}> must be an integer of at least 1; it is {text[:40]!r}")
        return int(text)

    def number(self, line: int, text: str, name: str) -> float:
        value = parsed(text)
        if value is None or not 0 <= value < np.inf:
            self.refuse(line, f"{name} must be a finite number of at least 0; it is {text[:40]!r}")
        return value

    def node(self, line: int, text: str, name: str, most: int) -> int:
        """A node of the file, which counts from 1, counted from 0."""
        if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= most:
            self.refuse(line, f"{name} must be an integer from 1 to {most}; it is {text[:40]!r}")
        return int(text) - 1


def _links(file: _File, n_nodes: int) -> Links:
    """One line a link, with ten numbers; a semicolon ends it."""
    table = []
    for line, text in file.lines:
        entries = text.removesuffix(";").split()
        if len(entries) != len(_COLUMNS):
            file.refuse(line, f"a link has {len(_COLUMNS)} entries, {', '.join(_COLUMNS)}; here are {len(entries)}")
        ends = [file.node(line, text, name, n_nodes) for name, text in zip(_COLUMNS[:2], entries, strict=False)]
        table.append([*ends, *(file.number(line, e, n) for n, e in zip(_COLUMNS[2:], entries[2:], strict=True))])
    if len(table) != file.whole("NUMBER OF LINKS"):
        file.refuse(file.tags["NUMBER OF LINKS"][0], f"the file has {len(table)} links")
    columns = dict(zip(_COLUMNS, np.array(table).T, strict=True))
    return Links(**columns | {name: columns[name].astype(np.int64) for name in ("tail", "head", "type")})


def _demand(file: _File, zones: int) -> Array:
    """Sections that begin with ``Origin i``, of entries ``j : trips;``."""
    demand, origin, seen = np.zeros((zones, zones)), -1, np.zeros((zones, zones), bool)
    for line, text in file.lines:
        words = text.split()
        if words[0] == "Origin" and len(words) == 2:
            origin = file.node(line, words[1], "the origin", zones)
            continue
        if origin < 0:
            file.refuse(line, f"{text[:40]!r} stands before the first Origin")
        for j, trips in _entries(file, line, text):
            end = file.node(line, j, "the destination", zones)
            if seen[origin, end]:
                file.refuse(line, f"trips from {origin + 1} to {end + 1} were given before")
            seen[origin, end] = True
            demand[origin, end] = file.number(line, trips, f"the number of trips from {origin + 1} to {end + 1}")
    return demand


def _entries(file: _File, line: int, text: str) -> Iterator[tuple[str, str]]:
    *entries, rest = text.split(";")
    if rest.strip():
        file.refuse(line, f"{rest.strip()[:40]!r} has no ';' at its end")
    for entry in entries:
        pair = entry.split(":")
        if len(pair) != 2:
            file.refuse(line, f"{entry.strip()[:40]!r} is no 'destination : trips'")
        yield pair[0].strip(), pair[1].strip()
