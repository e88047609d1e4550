"""Points, vertices, low-rank matrices and gradients: everything that can be mixed."""
