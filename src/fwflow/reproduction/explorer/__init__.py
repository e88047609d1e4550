"""Interactive page that shows two methods step by step on a problem in the plane, with the flow."""

from fwflow.reproduction.explorer.page import write
from fwflow.reproduction.explorer.scenes import Scene, scenes

__all__ = ["Scene", "scenes", "write"]
