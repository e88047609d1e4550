"""Compiling is what these tests wait for, and they need no fast code."""

import jax

jax.config.update("jax_disable_most_optimizations", True)
