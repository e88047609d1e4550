"""How is a state kept in a file? As arrays and one JSON document in a zip archive, sealed by a checksum.

A file is parsed and never run: no pickle, no import, and no class but those registered with `storable`.
"""

from fwflow._storage.archive import load, save
from fwflow._storage.files import replacing
from fwflow._storage.registry import places_within, storable

__all__ = ["load", "places_within", "replacing", "save", "storable"]
