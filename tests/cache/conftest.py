"""One server for the tests of this folder."""

from tests.valkey import valkey

__all__ = ["valkey"]
