"""The example runs as it is, and draws a figure."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "traffic.py"


def test_traffic(tmp_path, capsys):
    runpy.run_path(str(EXAMPLE))["main"](str(tmp_path / "traffic.png"), calls=120)
    assert float(capsys.readouterr().out.split()[1]) == pytest.approx(4231335.2871, abs=1e-3)
    assert (tmp_path / "traffic.png").stat().st_size > 50_000
