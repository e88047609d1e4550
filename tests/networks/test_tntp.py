"""Networks from files: what is read is what was written, and what is damaged is refused with its line."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.networks import read_tntp, sioux_falls

REAL = Path(os.environ.get("FWFLOW_DATA") or Path(__file__).parents[3] / "shared" / "data") / "networks"
needs_real = pytest.mark.skipif(
    not REAL.is_dir(), reason="no real data: set FWFLOW_DATA, or put it in ../shared/data beside the repository"
)

NET = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 3\t
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 4
<ORIGINAL HEADER>~ Init node	Term node ;
<END OF METADATA>

~	init_node	term_node	capacity	length	free_flow_time	b	power	speed	toll	link_type	;
	1	3	25.5	2	6	0.15	4	0	1	1	;
	3	2	1e3	3	.5	0.2	2.5	0	0	2	;
	1	2	0	1	90	0	0	0	10	1	;
	2	1	7	1	9.	1	1	60	0	1	;
"""
TRIPS = """<NUMBER OF ZONES> 2
<TOTAL OD FLOW> 30.0
<END OF METADATA>

Origin \t1
    1 :      4.0;     2 :    20.5;
~ a comment
Origin 2
    1 :    10.0;
"""


def read(folder, net=NET, trips=TRIPS, **weights):
    (folder / "net").write_bytes(net if isinstance(net, bytes) else net.encode())
    (folder / "trips").write_bytes(trips if isinstance(trips, bytes) else trips.encode())
    return read_tntp(folder / "net", folder / "trips", **weights)


def attempt(folder, texts):
    """A network, or None if an error that names a file in the folder says why not."""
    try:
        return read(folder, **texts)
    except ValueError as error:
        if str(folder) not in str(error):
            raise
        return None


def same(a, b):
    columns = (dataclasses.asdict(network.links).values() for network in (a, b))
    return (
        all(np.array_equal(x, y) for x, y in zip(*columns, strict=True))
        and np.array_equal(a.demand, b.demand)
        and (a.n_nodes, a.first_through) == (b.n_nodes, b.first_through)
    )


def test_what_is_written_is_read(tmp_path):
    network = read(tmp_path, toll_weight=2.0, distance_weight=0.5)
    links = network.links
    assert links.tail.tolist() == [0, 2, 0, 1]
    assert links.head.tolist() == [2, 1, 1, 0]
    assert links.capacity.tolist() == [25.5, 1000.0, 0.0, 7.0]
    assert links.power.tolist() == [4, 2.5, 0, 1]
    assert links.type.tolist() == [1, 2, 1, 1]
    assert network.demand.tolist() == [[4.0, 20.5], [10.0, 0.0]]
    assert (network.n_nodes, network.first_through) == (3, 2)
    np.testing.assert_allclose(network.objective.cost(np.zeros(4)), [9.0, 2.0, 110.5, 9.5])
    np.testing.assert_array_equal(network.flows.lmo(network.objective.cost(np.zeros(4))), [20.5, 20.5, 0, 10])


@pytest.mark.parametrize(
    "change", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t, lambda t: t.rstrip("\n")]
)
def test_line_ends_and_marks_of_other_systems_do_not_matter(tmp_path, change):
    assert same(read(tmp_path), read(tmp_path, change(NET), change(TRIPS)))


DAMAGED = {
    "missing tag": ("net", "<NUMBER OF LINKS> 4\n", "", "line 5: <NUMBER OF LINKS> is missing"),
    "no end": ("net", "<END OF METADATA>", "", "line 9: .* is not a <TAG>, and <END OF METADATA> has"),
    "tag twice": ("net", "<FIRST THRU NODE>", "<NUMBER OF ZONES>", "line 3: <NUMBER OF ZONES> was given before, on"),
    "tag without number": (
        "net",
        "NODES> 3",
        "NODES> three",
        "line 2: <NUMBER OF NODES> must be an integer of at least",
    ),
    "fewer nodes than zones": ("net", "NODES> 3", "NODES> 1", "line 1: there are 2 zones, but 1 nodes"),
    "links are missing": ("net", "LINKS> 4", "LINKS> 5", "line 4: the file has 4 links"),
    "a column too few": ("net", "25.5\t", "", "line 9: a link has 10 entries, tail, head, .*; got 9"),
    "a column too many": ("net", "25.5\t", "25.5 1 ", "line 9: a link has 10 entries, tail, head, .*; got 11"),
    "no such node": ("net", "\t3\t2\t", "\t3\t4\t", "line 10: head must be an integer from 1 to 3; got '4'"),
    "node zero": ("net", "\t3\t2\t", "\t0\t2\t", "line 10: tail must be an integer from 1 to 3; got '0'"),
    "negative": ("net", "25.5", "-25.5", "line 9: capacity must be a finite number of at least 0; got '-25.5'"),
    "nan": ("net", "0.15", "nan", "line 9: b must be a finite number"),
    "infinite": ("net", "0.15", "1e999", "line 9: b must be a finite number"),
    "underscore": ("net", "1e3", "1_000", "line 10: capacity must be a finite number"),
    "other zones": ("trips", "ZONES> 2", "ZONES> 3", "line 1: net has 2 zones"),
    "no origin": ("trips", "Origin \t1", "", "line 6: '1 :      4.0;     2 :    20.5;' is before the first Origin"),
    "origin zero": ("trips", "Origin 2", "Origin 0", "line 8: the origin must be an integer from 1 to 2; got '0'"),
    "far destination": ("trips", "2 :    20.5", "3 :  20.5", "line 6: the destination must be an integer from 1 to 2"),
    "negative trips": ("trips", "20.5", "-1", "line 6: the number of trips from 1 to 2 must be a finite number"),
    "no colon": ("trips", "2 :", "2", "line 6: '2    20.5' is not 'destination : trips'"),
    "no semicolon": ("trips", "10.0;", "10.0", "line 9: '1 :    10.0' has no ';' at its end"),
    "twice": ("trips", "Origin 2", "Origin 1", "line 9: trips from 1 to 1 were given before"),
    "empty": ("net", NET, "", "line 1: the file ends before <END OF METADATA>"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_file_and_line(tmp_path, name):
    file, old, new, message = DAMAGED[name]
    texts = {"net": NET, "trips": TRIPS}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1)
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path, **texts)
    assert str(tmp_path / file) in str(error.value)


def test_trips_without_a_path_are_named(tmp_path):
    message = r"trips: demand\[1, 0\] is 10, but no path .* \(nodes are counted from 0 here, and from 1 in the file\)"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, net=NET.replace("\t2\t1\t7", "\t2\t3\t7"))


def test_weights_must_be_numbers(tmp_path):
    with pytest.raises(ValueError, match="toll_weight must be at least 0 and finite; got int -1"):
        read(tmp_path, toll_weight=-1)
    with pytest.raises(FileNotFoundError):
        read_tntp(tmp_path / "net", tmp_path / "none")


SETTINGS = settings(
    deadline=None, max_examples=120, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FILE, PLACE = st.sampled_from(["net", "trips"]), st.floats(0, 1)


@given(file=FILE, place=PLACE, junk=st.sampled_from(["x", ";", ":", "<", ">", "\n", "\0", "é", "_", "\x1c", "Origin"]))
@SETTINGS
def test_what_does_not_belong_into_a_file_is_refused_or_changes_nothing(tmp_path, file, place, junk):
    texts, whole = {"net": NET, "trips": TRIPS}, read(tmp_path)
    start = int(place * len(texts[file]))
    texts[file] = texts[file][:start] + junk + texts[file][start:]
    network = attempt(tmp_path, texts)
    assert network is None or same(network, whole)


@given(file=FILE, place=PLACE, length=st.integers(0, 9), junk=st.text("019.-+e~;: \n", max_size=3))
@SETTINGS
def test_whatever_happens_to_a_file_it_is_refused_or_makes_a_network(tmp_path, file, place, length, junk):
    texts = {"net": NET, "trips": TRIPS}
    start = int(place * len(texts[file]))
    texts[file] = texts[file][:start] + junk + texts[file][start + length :]
    network = attempt(tmp_path, texts)
    if network is not None:
        assert len(network.links) == 4 or f"LINKS> {len(network.links)}" in texts["net"]
        assert np.isfinite(network.objective.cost(network.flows.start())).all()


@given(cut=PLACE, file=FILE)
@SETTINGS
def test_of_a_file_that_was_cut_off_no_number_is_misread(tmp_path, cut, file):
    texts, whole = {"net": NET, "trips": TRIPS}, read(tmp_path)
    texts[file] = texts[file][: int(cut * len(texts[file]))]
    network = attempt(tmp_path, texts)
    if network is not None:  # a section of trips may end anywhere: the format does not say how many there are
        given = network.demand > 0
        np.testing.assert_array_equal(network.demand[given], whole.demand[given])
        assert file == "trips" or same(network, whole)


@given(junk=st.binary(max_size=60))
@SETTINGS
def test_what_is_no_such_file_is_refused(tmp_path, junk):
    with pytest.raises(ValueError, match="net"):
        read(tmp_path, net=junk)


def test_sioux_falls():
    network = sioux_falls()
    assert (network.n_nodes, network.demand.sum(), len(network.links)) == (24, 360600.0, 76)
    assert network.coordinates.shape == (24, 2)
    f, C = network.objective, network.flows
    r = fw.minimize(f, C, method="corrective", tol=0.01)
    assert r.success
    assert r.fun == pytest.approx(4231335.28710744, abs=0.01)
    assert C.contains(r.x) is True


@needs_real
def test_sioux_falls_is_the_one_of_the_files():
    assert same(sioux_falls(), read_tntp(REAL / "SiouxFalls_net.tntp", REAL / "SiouxFalls_trips.tntp"))
    nodes = np.loadtxt(REAL / "SiouxFalls_node.tntp", skiprows=1, usecols=(1, 2))
    np.testing.assert_allclose(sioux_falls().coordinates, nodes, atol=1e-5)


@needs_real
@pytest.mark.parametrize(("name", "optimum"), [("SiouxFalls", 4231335.28710744), ("Anaheim", 1286032.171096032)])
def test_published_flows_are_optimal(name, optimum):
    network = read_tntp(REAL / f"{name}_net.tntp", REAL / f"{name}_trips.tntp")
    x = np.loadtxt(REAL / f"{name}_flow.tntp", skiprows=1, usecols=2)
    f, C = network.objective, network.flows
    assert f.value(f.point(x)) == pytest.approx(optimum, rel=1e-14)
    costs = f.cost(x)
    assert 0 <= x @ costs - C.lmo(costs).dot(costs) <= 1e-13 * (x @ costs)
