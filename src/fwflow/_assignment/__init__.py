"""Quadratic assignment by Frank-Wolfe: data, search, lower bounds, and the function that users call."""
