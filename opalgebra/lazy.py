"""Packages whose public names are imported at their first use (PEP 562), and win over submodules of the same name."""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package whose `_HOME` has its public names: `expand` is the function, also once its module is loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._HOME or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def homes(package: str, names: Mapping[str, str]) -> dict[str, str]:
    """From each public name to its module, for a table from modules to the names in them; the package becomes lazy."""
    sys.modules[package].__class__ = LazyPackage
    return {name: module for module, listed in names.items() for name in listed.split()}


def resolved(package: str, home: Mapping[str, str | None], name: str) -> Any:
    """The value of a public name, kept for its next use; the submodule of this name where the home is None.

    AttributeError for another name; ModelError with what to install where an optional library is missing.
    """
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = home[name]
    try:
        value = import_module(f"{package}.{name}") if module is None else getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        refusal: Exception | None = import_module("opalgebra.models.packages").absent(f"{package}.{name}", error)
        if refusal is None:
            raise
        raise refusal from error
    vars(sys.modules[package])[name] = value
    return value
