"""The libraries behind checksums and phone numbers, which are loaded when a type needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import ConfigurationError

__all__ = ["library"]


def library(module: str, needed_by: str) -> Any:
    """The module, or `ConfigurationError` that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"finding {needed_by} locally needs {module.partition('.')[0]}: "
            "pip install 'procession[guards]'"
        ) from error
