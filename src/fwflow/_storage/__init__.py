"""Files of states and models: arrays and one JSON document in a zip archive, sealed by a checksum.

Reading a file runs no code of the file: there is no pickle and no import, and only classes that are registered with
`storable` are constructed.
"""

from fwflow._storage.archive import load, save
from fwflow._storage.files import replacing
from fwflow._storage.registry import places_within, storable

__all__ = ["load", "places_within", "replacing", "save", "storable"]
