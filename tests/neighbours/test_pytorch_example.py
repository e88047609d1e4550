"""The page of the gallery on PyTorch runs, and its result is that of the EM algorithm."""

import numpy as np
import pytest

from tests.stories import execute


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_weights_of_an_ensemble_are_those_of_em(monkeypatch, capsys):
    found = execute("pytorch_ensemble", monkeypatch, NETWORKS=8, EPOCHS=60)
    assert "torch.float64 True" in capsys.readouterr().out
    r, em = found["r"], found["em"]
    assert r.success
    assert em[-1] - (r.fun - r.gap) >= -1e-9
    assert em[-1] - r.fun <= np.log(8) / 2000  # EM from equal weights is as close as log(networks) / steps
    assert float(r.x.sum()) == pytest.approx(1.0)
