"""One page on which to choose a problem and two methods, and to watch them step beside the flow."""

from fwflow.reproduction.explorer.page import write
from fwflow.reproduction.explorer.scenes import Grid, Scene, SceneChoice

__all__ = ["Grid", "Scene", "SceneChoice", "write"]
