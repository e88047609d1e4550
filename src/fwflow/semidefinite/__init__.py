"""Semidefinite programs with certified bounds."""
