"""``python -m fwflow.cli``."""

from fwflow.cli import main

main()
