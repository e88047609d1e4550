"""Which version is this? Where the package, its state files and its build find the same answer."""

__version__ = "0.1.0"
