"""Most of the time of these tests is compiling, and they need no fast code."""

import jax

jax.config.update("jax_disable_most_optimizations", True)
