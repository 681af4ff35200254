"""What holds for the tests of policies."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def quick_collections() -> Iterator[None]:
    """Objects from before these tests are set apart: looking for what is left behind is quick."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
