"""Checkers for the objectives, sets, designs and tableaus of users."""

from fwflow.checks.numbers import adjoint_error, gradient_error, lmo_excess, observed_order
from fwflow.checks.reports import Report, report

__all__ = ["Report", "adjoint_error", "gradient_error", "lmo_excess", "observed_order", "report"]
