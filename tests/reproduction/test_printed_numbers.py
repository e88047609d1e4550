"""Printed numbers and settings of the paper."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.reproduction import (
    e1_flow,
    e2_zigzag,
    e3_triangle,
    e4_gisette,
    e6_sensing,
    e7_certificates,
    e8_rates,
    find_experiment,
)


def test_printed_zigzag_tables():
    assert e2_zigzag.PRINTED_DELTAS == (1.0, 0.1, 0.01)
    assert e2_zigzag.PRINTED_METHODS == ("fw", "midpoint", "rk44")
    assert e2_zigzag.PRINTED_DELTA == {
        "sensing": ((105.90, 140.29), (10.49, 13.86), (1.05, 1.39)),
        "madelon": ((0.11, 0.23), (0.021, 0.028), (0.0021, 0.0028)),
        "gisette": ((1.08, 1.74), (0.21, 0.28), (0.021, 0.028)),
    }
    assert e2_zigzag.PRINTED_METHOD == {
        "sensing": ((105.90, 140.29), (0.57, 1.0018), (0.015, 0.033)),
        "madelon": ((0.031, 0.040), (0.025, 0.029), (0.025, 0.029)),
        "gisette": ((0.30, 0.40), (0.25, 0.11), (0.22, 0.20)),
    }


def test_printed_certificates():
    assert e7_certificates.PRINTED == {
        ("midpoint", 1): (-0.3810, 1.1429),
        ("midpoint", 2): (-0.2222, 0.8889),
        ("rk44", 1): (0.2449, 0.5986, 0.5714, 0.3333),
        ("rk38", 1): (0.1758, 0.6409, 0.6818, 0.2500),
        ("rk5", 1): (0.1821, 0.0068, 0.8416, 0.3657, 0.9956, 0.2333),
    }


def test_certificates_stand_beside_the_printed_ones():
    outside = {f"outside-{name}": {"violation": np.array([0.0])} for name in fw.tableaus}
    results = {"norms": {"rk44": np.array([1.0, 0.5])}, **outside}
    found = e7_certificates.findings(e7_certificates.Settings(), results)
    rows = {row[0]: row for row in found.tables[0].rows}
    assert set(rows) == set(fw.tableaus)
    assert rows["rk38"][2:4] == ("0.1758  0.6409  0.6818  0.2500",) * 2
    assert rows["midpoint"][4] == "never"
    assert rows["rk44"][4] == "k ≥ 0"


def test_settings_are_those_of_the_paper():
    e3, e4, e6 = e3_triangle.Settings(), e4_gisette.Settings(), e6_sensing.Settings()
    assert (e3.iterations, e3.drawn, e3.c, e3.k0) == (400, 15, 2.0, 1)
    assert (e4.alpha, e4.iterations, e4.methods) == (250.0, 200, ("fw", "midpoint", "rk44", "rk38", "rk5"))
    assert (e6.alpha, e6.iterations, e6.methods) == (1000.0, 5000, e4.methods)
    assert (e2_zigzag.Settings().windows, e2_zigzag.Settings().t_end) == ((5, 20), 100.0)
    e5 = find_experiment("E5").Settings()
    assert (e5.alpha, e5.rho, e5.iterations, e5.methods) == (1000.0, 10.0, 100, e4.methods)
    assert e1_flow.Settings().deltas == (1.0, 0.1, 0.01, 0.001)
    assert e1_flow.Settings().cs == (1.0, 2.0, 4.0)


def test_e8_runs_every_tableau():
    assert set(e8_rates.Settings().methods) == set(fw.tableaus)


def test_which_tableaus_have_the_weights_that_the_negative_result_assumes():
    assert {name for name in fw.tableaus if not e8_rates.has_positive_weights(name)} == {"midpoint", "dp5"}


@settings(deadline=None, max_examples=100, derandomize=True)
@given(weights=st.lists(st.integers(-5, 20), min_size=1, max_size=6).filter(lambda w: sum(w) > 0))
def test_splits_evenly(weights):
    halves = [2 * sum(w for i, w in enumerate(weights) if subset >> i & 1) for subset in range(2 ** len(weights))]
    assert e8_rates.splits_evenly(np.array(weights) / sum(weights)) == (sum(weights) in halves)


def test_which_tableaus_split_evenly():
    even = {name for name, tableau in fw.tableaus.items() if e8_rates.splits_evenly(tableau.beta)}
    assert even >= {"heun", "rk44", "rk38"}
    assert even.isdisjoint({"euler", "midpoint", "ralston", "kutta3", "ssprk3", "bs3"})
