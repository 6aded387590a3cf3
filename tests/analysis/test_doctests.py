"""The example of every public function of the analysis runs and prints what it says."""

import doctest
from importlib import import_module
from types import ModuleType

import pytest

from opalgebra import analysis

MODULES = sorted(set(analysis._HOME.values()))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module(name):
    assert doctest.testmod(import_module(name)).failed == 0


def test_public_names_are_no_modules_once_every_module_is_loaded():
    for name in MODULES:
        import_module(name)
    assert not any(isinstance(getattr(analysis, name), ModuleType) for name in analysis.__all__)
    assert dir(analysis) == sorted(dir(analysis)) and set(analysis.__all__) <= set(dir(analysis))
    with pytest.raises(AttributeError, match=r"module 'opalgebra\.analysis' has no attribute 'no_such_name'"):
        analysis.no_such_name  # noqa: B018
