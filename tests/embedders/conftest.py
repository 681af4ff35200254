"""The provider on loopback of the tests of models; connections are closed as there."""

from tests.models.conftest import connections, provider

__all__ = ["connections", "provider"]
