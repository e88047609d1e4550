"""The flow itself: its trajectories, their zig-zag energy and their rates."""
