"""Personal data and secrets, found locally: no key, no model, no network."""

from __future__ import annotations

from .found import Detection
from .kinds import GROUPS, LOCAL_TYPES
from .local import LocalDetector
from .phones import DEFAULT_REGIONS
from .redaction import METHODS, Method, redacted, with_redactions

__all__ = [
    "DEFAULT_REGIONS",
    "GROUPS",
    "LOCAL_TYPES",
    "METHODS",
    "Detection",
    "LocalDetector",
    "Method",
    "redacted",
    "with_redactions",
]
