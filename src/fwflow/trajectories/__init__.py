"""Trajectories of the flow, their zig-zag energy and their rates."""
