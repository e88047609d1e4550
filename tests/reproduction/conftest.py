"""Fixtures of the tests of the experiments."""

from tests.reproduction.helpers import calls, serial

__all__ = ["calls", "serial"]
