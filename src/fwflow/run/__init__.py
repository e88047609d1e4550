"""A run: the only loop, its stopping rules, its verification, its trace and its result."""
