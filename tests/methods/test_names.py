"""Do editors complete the names of all methods?"""

from typing import get_args, get_type_hints

import fwflow as fw
from fwflow.methods import methods
from fwflow.methods.catalogue import METHODS, MethodName
from fwflow.tableau.catalogue import TableauName


def literals(kind):
    """The names in a union of types."""
    return [name for part in get_args(kind) for name in ([part] if isinstance(part, str) else literals(part))]


def test_the_names_for_editors_are_those_of_the_catalogues():
    assert sorted(literals(TableauName)) == sorted(fw.tableaus)
    assert sorted(literals(MethodName)) == sorted({*METHODS, *methods})


def test_minimize_declares_the_names():
    assert set(literals(get_type_hints(fw.minimize)["method"])) == set(literals(MethodName))
