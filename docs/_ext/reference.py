"""Which members does the reference show of a class? Those that no public class above it has shown already."""

import inspect
from functools import cached_property

import fwflow
from fwflow import checks, datasets, designs, jax, networks, sklearn
from fwflow.tables import model_files

MODULES = (fwflow, sklearn, jax, designs, networks, checks, datasets, model_files)
CLASSES = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isclass(value) and not name.startswith("_") and value.__module__.startswith(module.__name__)
}
PUBLIC = set(CLASSES.values())
DESCRIPTORS = (property, cached_property, staticmethod, classmethod)


def own_members(cls: type) -> list[str]:
    """Public members with a docstring that fwflow declares for this class, in the order of the source.

    Bases that are not public are part of the class; what belongs to a public one is on that one's page.
    """
    above = [base for base in cls.__mro__[1:] if base in PUBLIC or not base.__module__.startswith("fwflow")]
    own = [base for base in cls.__mro__ if base not in above]
    declared = {name for base in above for name in vars(base)}
    names = dict.fromkeys(name for base in own for name in vars(base) if not name.startswith("_"))
    return [name for name in names if name not in declared and _documented(cls, name)]


def _documented(cls: type, name: str) -> bool:
    member = inspect.getattr_static(cls, name)
    described = inspect.isfunction(member) or isinstance(
        member, property | cached_property | staticmethod | classmethod
    )
    return described and bool(inspect.getdoc(getattr(cls, name)))


#: For the template of a class.
MEMBERS = {name: own_members(cls) for name, cls in CLASSES.items()}
