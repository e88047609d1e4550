"""One page on which to choose a problem and two methods, and to watch them step beside the flow."""

from fwflow.reproduction.explorer.page import write
from fwflow.reproduction.explorer.scenes import SceneChoice, Grid, Scene

__all__ = ["SceneChoice", "Grid", "Scene", "write"]
