"""Model hubs stay offline; a test process computes in one thread; Hypothesis runs the same examples everywhere, and more of
them in the `deep` profile.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", parent=settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items):
    """Tests of a GPU are skipped where there is none."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu:
        import torch

        for item in on_gpu if not torch.cuda.is_available() else ():
            item.add_marker(pytest.mark.skip(reason="no GPU"))


PROMPT = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M with its real weights, in float64."""
    import opalgebra as oa

    return oa.load("smollm2")


@pytest.fixture(scope="session")
def bound(smollm2):
    """The demonstration prompt bound with the gate split."""
    import opalgebra as oa

    return oa.bind(smollm2, PROMPT)
