"""A matrix spread over devices, by rows or by columns, gives the answer of one device, and stays spread."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("sharded.py")


def test_shards_give_the_answer_of_one_device():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr[-3000:]
    devices, answers, gathered = json.loads(ended.stdout.splitlines()[-1])
    assert devices == 8
    for method in ("heun", "apg"):
        one = answers[f"one {method}"]
        for layout in ("rows", "columns"):
            other = answers[f"{layout} {method}"]
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) < 1e-12
    assert max(gathered, default=0) <= 64  # vectors travel between devices, and nothing of the size of A
