"""Playing scenes one after the other, with the embedded model or with a script."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

from ..errors import ModelError
from ..testing import RecordingObserver, ScriptedModel
from . import cost, hooks, redaction, retry, tool_result, tripwire
from .embedded import embedded_model
from .overheard import Overheard
from .scene import Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..models.local_server import LocalServer
    from .scene import Scene
    from .stage import Stage

__all__ = ["SCENES", "play_scenes"]

SCENES: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        hooks.SCENE,
        redaction.SCENE,
        tripwire.SCENE,
        retry.SCENE,
        tool_result.SCENE,
        cost.SCENE,
    )
}
"""All scenes by name, in their order."""

SCRIPTED = "SCRIPTED: what the model says in this scene is written down, not generated."


async def play_scenes(stage: Stage, scenes: Sequence[Scene], *, scripted: bool = False) -> bool:
    """Play scenes; True when every claim they make about their runs held.

    Raises `ProcessionError` when the model cannot be fetched, started or asked any more.
    """
    started = perf_counter()
    observer = RecordingObserver()
    if scripted:
        for number, scene in enumerate(scenes, 1):
            model = Overheard(ScriptedModel(scene.script, provider="scripted", model_id="script"))
            stage.heading(f"{number}/{len(scenes)}  {scene.title}", SCRIPTED)
            await scene.play(Setting(stage, model, observer))
    else:
        await _play_real(stage, scenes, observer)
    stage.blank()
    count = "1 scene" if len(scenes) == 1 else f"{len(scenes)} scenes"
    stage.put(f"{count} in {perf_counter() - started:.1f} s.\n", "bold")
    for claim in stage.broken:
        stage.say(f"This did not hold: {claim}", "bold red")
    return not stage.broken


async def _play_real(stage: Stage, scenes: Sequence[Scene], observer: RecordingObserver) -> None:
    stage.put("procession demo", "bold")
    stage.put(" with real answers of the embedded model\n")
    async with embedded_model(stage) as (model, server):
        stage.say(
            f"SmolLM2 (135 million parameters, so it makes mistakes) answers at {server.url}, on "
            "this machine's own processor. Each scene puts processors around it. All that is shown "
            "is read from the runs as they happen.",
            "dim",
        )
        heard = Overheard(model, is_alive=lambda: server.running)
        for number, scene in enumerate(scenes, 1):
            stage.heading(f"{number}/{len(scenes)}  {scene.title}")
            try:
                await scene.play(Setting(stage, heard, observer))
            except ModelError as error:
                if not await _has_ended(server):
                    raise
                raise ModelError(f"the model's process has ended midway: {error}") from error


async def _has_ended(server: LocalServer) -> bool:
    """Whether the server's process is gone; its connections break a moment before it is."""
    for _ in range(20):
        if not server.running:
            return True
        await asyncio.sleep(0.02)
    return False
