"""Parts that several methods share: active sets, and solvers restricted to few vertices, faces or blocks."""
