"""Runs: the loop, stopping criteria, verification, traces, results, and paths over radii."""
