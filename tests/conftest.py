"""The marker `sampled`: of suites with many cases, ``make test`` runs some and ``make test-slow`` the others.

Tests of Ctrl-C need the usual handler of SIGINT, also where the tests run as a background job of a shell.
"""

import signal
import threading
from collections import Counter

import pytest

# Shells start background jobs with SIGINT ignored, and so do all their child processes.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but every n-th case of a test that is ``sampled(n)`` as slow, the first one not."""
    cases = Counter[str]()
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[test] += 1
