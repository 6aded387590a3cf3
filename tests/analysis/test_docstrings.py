"""Every example in a docstring of the analysis runs and prints what it says."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    "sequences rational borel_sums epsilon minimal_polynomial transforms fixed_point resummation basis channels regulators "
    "measurement"
).split()


@pytest.mark.models
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = import_module(f"opalgebra.analysis.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0 and (result.attempted or name == "sequences")
