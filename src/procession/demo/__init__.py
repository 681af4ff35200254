"""The terminal demo: real answers of the embedded model, on their way through processors.

Every line shown is computed from a run as it happens: its chunks, its spans, its results.
"""

from .playing import SCENES, play_scenes
from .stage import Stage

__all__ = ["SCENES", "Stage", "play_scenes"]
