"""Version of the package, for its state files and its build too."""

__version__ = "0.1.0"
