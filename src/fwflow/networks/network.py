"""Road networks: a table of links, a matrix of demand, their traffic-assignment problem, and a reader of TNTP files."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NoReturn

import numpy as np

from fwflow._validation import Array, InputError, number, parsed
from fwflow.networks.costs import Beckmann
from fwflow.networks.flows import FlowPolytope

_TAG = re.compile(r"<([^<>]*)>(.*)")
_WHOLE = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, eq=False)
class Links:
    """Links of a network: one array for each column of the table, with one entry per link.

    Attributes
    ----------
    tail, head : arrays of int
        First and last node of each link, counted from 0.
    capacity : array
        Flow at which the cost of a link grows by the share b of its free-flow time.
    length : array
        Length of each link.
    free_flow : array
        Travel time without traffic.
    b, power : arrays
        Parameters of the BPR link costs, as in `fwflow.Beckmann`.
    speed, toll, type : arrays
        Speed limit, toll and type of each link. The link costs do not use the speed limit and the type.

    See Also
    --------
    Network : Links together with the demand.
    read_tntp : Reads them from a file.

    Examples
    --------
    >>> import fwflow as fw
    >>> links = fw.networks.sioux_falls().links
    >>> len(links), links.tail[:3], links.head[:3]
    (76, array([0, 0, 1]), array([1, 2, 0]))
    """

    tail: Array
    head: Array
    capacity: Array
    length: Array
    free_flow: Array
    b: Array
    power: Array
    speed: Array
    toll: Array
    type: Array

    def __len__(self) -> int:
        return len(self.tail)

    def __repr__(self) -> str:
        return f"Links({len(self)} links; {', '.join(field.name for field in fields(self))})"


@dataclass(frozen=True, eq=False)
class Network:
    """Traffic-assignment problem: links, and trips between zones.

    ``fw.minimize(network.objective, network.flows)`` finds the equilibrium.

    Attributes
    ----------
    links : Links
        The links of the network.
    demand : (n_zones, n_zones) array
        Trips between the zones, which are the first nodes.
    n_nodes, first_through : int
        As in `fwflow.FlowPolytope`.
    toll_weight, distance_weight : float
        Costs of a unit of toll and of a unit of length, in units of time; zero by default.
    coordinates : (n_nodes, 2) array, optional
        Positions of the nodes, for a map.

    See Also
    --------
    read_tntp : Network from files.
    road_grid : Generated network.
    sioux_falls : Small test problem.
    fwflow.FlowPolytope : Set of the flows.
    fwflow.Beckmann : Objective of the equilibrium.

    Examples
    --------
    >>> import fwflow as fw
    >>> network = fw.networks.sioux_falls()
    >>> r = fw.minimize(network.objective, network.flows, tol=1.0)
    >>> r.success, network.flows.contains(r.x)
    (True, True)
    """

    links: Links
    demand: Array
    n_nodes: int
    first_through: int = 0
    toll_weight: float = 0.0
    distance_weight: float = 0.0
    coordinates: Array | None = None

    def __repr__(self) -> str:
        return f"Network({len(self.links)} links, {self.n_nodes} nodes, {len(self.demand)} zones)"

    @cached_property
    def objective(self) -> Beckmann:
        """Function that flows in equilibrium minimise."""
        links = self.links
        fixed = self.toll_weight * links.toll + self.distance_weight * links.length
        return Beckmann(links.free_flow, links.capacity, links.b, links.power, fixed=fixed)

    @cached_property
    def flows(self) -> FlowPolytope:
        """Set of the flows that serve the demand."""
        return FlowPolytope(self.links.tail, self.links.head, self.demand, self.n_nodes, self.first_through)


def read_tntp(
    net_path: str | PathLike[str],
    trips_path: str | PathLike[str],
    toll_weight: float = 0.0,
    distance_weight: float = 0.0,
) -> Network:
    r"""Read a network and its trips from two files in the TNTP format (github.com/bstabler/TransportationNetworks).

    An entry that does not follow the format is an error that names the file and the line.

    Parameters
    ----------
    net_path, trips_path : str or path-like
        Files such as ``SiouxFalls_net.tntp`` and ``SiouxFalls_trips.tntp``.
    toll_weight, distance_weight : float
        Costs of a unit of toll and of a unit of length, in units of time; zero by default.

    Returns
    -------
    Network

    See Also
    --------
    sioux_falls : A network of this format that ships with the package.
    road_grid : Generated networks.

    Examples
    --------
    >>> import fwflow as fw, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> zones, end = "<NUMBER OF ZONES> 2\n", "<END OF METADATA>\n"
    >>> tags = zones + "<NUMBER OF NODES> 2\n<FIRST THRU NODE> 1\n<NUMBER OF LINKS> 1\n" + end
    >>> _ = (folder / "net").write_text(tags + "~ tail head ...\n1 2 100 1 6 0.15 4 0 0 1 ;")
    >>> _ = (folder / "trips").write_text(zones + end + "Origin 1\n 2 : 50;")
    >>> network = fw.networks.read_tntp(folder / "net", folder / "trips")
    >>> network, network.flows.start()
    (Network(1 links, 2 nodes, 2 zones), array([50.]))
    """
    toll_weight, distance_weight = (
        number(weight, name, "be at least 0 and finite", lambda w: 0 <= w < np.inf)
        for name, weight in (("toll_weight", toll_weight), ("distance_weight", distance_weight))
    )
    net, trips = _File(net_path), _File(trips_path)
    zones, n_nodes = net.tag("NUMBER OF ZONES"), net.tag("NUMBER OF NODES")
    if zones > n_nodes:
        net.refuse(net.tags["NUMBER OF ZONES"][0], f"there are {zones} zones, but {n_nodes} nodes")
    if trips.tag("NUMBER OF ZONES") != zones:
        trips.refuse(trips.tags["NUMBER OF ZONES"][0], f"{net.path.name} has {zones} zones")
    first_through = net.tag("FIRST THRU NODE") - 1
    links, demand = _links(net, n_nodes), _demand(trips, zones)
    network = Network(links, demand, n_nodes, first_through, toll_weight, distance_weight)
    try:
        _ = network.flows
    except ValueError as error:
        raise InputError(f"{trips.path}: {error} (nodes are counted from 0 here, and from 1 in the file)") from None
    return network


class _File:
    """Tags of a file, and its lines after the metadata without comments; all with their line numbers."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.tags: dict[str, tuple[int, str]] = {}
        self.lines: list[tuple[int, str]] = []
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not a text file: {error}") from None
        for i, line in enumerate(map(str.strip, text.split("\n")), 1):
            if not line or line.startswith("~"):
                continue
            if "END OF METADATA" in self.tags:
                if not line.isascii():
                    self.refuse(i, f"{line[:40]!r} must be numbers in ASCII")
                self.lines.append((i, line))
                continue
            tag = _TAG.fullmatch(line)
            if not tag:
                self.refuse(i, f"{line[:40]!r} is not a <TAG>, and <END OF METADATA> has not been reached")
            name = tag[1].strip().upper()
            if name in self.tags:
                self.refuse(i, f"<{name}> was given before, on line {self.tags[name][0]}")
            self.tags[name] = (i, tag[2].strip())
        if "END OF METADATA" not in self.tags:
            self.refuse(len(text.split("\n")), "the file ends before <END OF METADATA>")

    def refuse(self, line: int, what: str) -> NoReturn:
        raise InputError(f"{self.path}, line {line}: {what}")

    def integer(self, line: int, text: str, name: str, most: float = np.inf) -> int:
        """Return an integer from 1 to `most`."""
        if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= most:
            wanted = "of at least 1" if most == np.inf else f"from 1 to {most}"
            self.refuse(line, f"{name} must be an integer {wanted}; got {text[:40]!r}")
        return int(text)

    def tag(self, name: str) -> int:
        """Return the value of a required tag, an integer of at least 1."""
        if name not in self.tags:
            self.refuse(self.tags["END OF METADATA"][0], f"<{name}> is missing")
        return self.integer(*self.tags[name], f"<{name}>")

    def number(self, line: int, text: str, name: str) -> float:
        value = parsed(text)
        if value is None or not 0 <= value < np.inf:
            self.refuse(line, f"{name} must be a finite number of at least 0; got {text[:40]!r}")
        return value


_COLUMNS = [field.name for field in fields(Links)]


def _links(file: _File, n_nodes: int) -> Links:
    """Return the links: a line with ten numbers for each, which a semicolon may end."""
    table = []
    for line, text in file.lines:
        entries = dict(zip(_COLUMNS, cells := text.removesuffix(";").split(), strict=False))
        if len(cells) != len(_COLUMNS):
            file.refuse(line, f"a link has {len(_COLUMNS)} entries, {', '.join(_COLUMNS)}; got {len(cells)}")
        ends = [file.integer(line, entries.pop(name), name, n_nodes) - 1 for name in ("tail", "head")]
        table.append([*ends, *(file.number(line, entry, name) for name, entry in entries.items())])
    if len(table) != file.tag("NUMBER OF LINKS"):
        file.refuse(file.tags["NUMBER OF LINKS"][0], f"the file has {len(table)} links")
    columns = dict(zip(_COLUMNS, np.array(table).T, strict=True))
    return Links(**columns | {name: columns[name].astype(np.int64) for name in ("tail", "head", "type")})


def _demand(file: _File, zones: int) -> Array:
    """Return the trips, which are sections of entries ``j : trips;`` that begin with ``Origin i``."""
    demand, origin = np.full((zones, zones), np.nan), 0
    for line, text in file.lines:
        words = text.split()
        if words[0] == "Origin" and len(words) == 2:
            origin = file.integer(line, words[1], "the origin", zones)
            continue
        *entries, rest = (entry.strip() for entry in text.split(";"))
        if not origin:
            file.refuse(line, f"{text[:40]!r} is before the first Origin")
        if rest:
            file.refuse(line, f"{rest[:40]!r} has no ';' at its end")
        for entry in entries:
            pair = [part.strip() for part in entry.split(":")]
            if len(pair) != 2:
                file.refuse(line, f"{entry[:40]!r} is not 'destination : trips'")
            end = file.integer(line, pair[0], "the destination", zones)
            if not np.isnan(demand[origin - 1, end - 1]):
                file.refuse(line, f"trips from {origin} to {end} were given before")
            demand[origin - 1, end - 1] = file.number(line, pair[1], f"the number of trips from {origin} to {end}")
    return np.nan_to_num(demand)


def sioux_falls() -> Network:
    """Return the network of Sioux Falls, South Dakota: 24 zones, 76 links and 360600 trips, with coordinates.

    It is a test problem of LeBlanc, Morlok, Pierskalla, "An efficient approach to solving the road network equilibrium
    traffic assignment problem", Transportation Research 9 (1975), 309-318, not a model of the city. In the units of
    Bar-Gera's Transportation Network Test Problems the objective at the equilibrium is 4231335.28710744. In other units
    it is printed as 42.3133528710744.

    Returns
    -------
    Network

    See Also
    --------
    read_tntp : Networks in files.
    road_grid : Generated networks.

    Examples
    --------
    >>> import fwflow as fw
    >>> network = fw.networks.sioux_falls()
    >>> network
    Network(76 links, 24 nodes, 24 zones)
    >>> fw.minimize(network.objective, network.flows, tol=1.0).success
    True
    """
    net, trips, node = (Path(__file__).with_name(f"sioux_falls_{part}.tntp") for part in ("net", "trips", "node"))
    return replace(read_tntp(net, trips), coordinates=np.loadtxt(node, comments="~", usecols=(1, 2)))
