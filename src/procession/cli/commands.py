"""The commands: what they take, and with which exit code they end.

0: done. 1: a run failed. 2: the set-up cannot work (a key, a model id, an extra). 130: Ctrl-C.
"""

from __future__ import annotations

import asyncio
import io
import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from ..errors import ConfigurationError, ModelFetchError, ProcessionError
from .runs import runs

__all__ = ["app", "run"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="LLM agents whose messages pass through processors.",
)

app.add_typer(runs, name="runs")

SCENE_NAMES = ("hooks", "redaction", "tripwire", "retry", "tool", "cost")


def run() -> None:
    """Run the app; whatever a model says can be written, if need be with question marks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"procession {installed_version('procession')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
]


@app.callback()
def procession(version: Version = False) -> None:
    """LLM agents whose messages pass through processors."""


SceneOption = Annotated[
    str | None,
    typer.Option("--scene", metavar="NAME", help=f"Play one scene: {', '.join(SCENE_NAMES)}."),
]
Scripted = Annotated[
    bool, typer.Option("--scripted", help="Play without a model, from written answers.")
]


@app.command()
def demo(scene: SceneOption = None, scripted: Scripted = False) -> None:
    """Watch processors at work on real answers of the embedded model."""
    if scene is not None and scene not in SCENE_NAMES:
        _fail(f"there is no scene {scene!r}. Scenes: {', '.join(SCENE_NAMES)}", 2)
    if not scripted:
        _need("openai", "xllamacpp")
    from ..demo import SCENES, Stage, play_scenes  # its imports take a moment: not for --help

    stage = Stage(_console())
    scenes = [SCENES[scene]] if scene else list(SCENES.values())
    try:
        held = asyncio.run(play_scenes(stage, scenes, scripted=scripted))
    except ModelFetchError as error:
        _fail(f"{error}\nWithout the model: procession demo --scripted", 2)
    except KeyboardInterrupt:
        _stopped()
    except ProcessionError as error:
        _fail(str(error), _code(error))
    raise typer.Exit(0 if held else 1)


Model = Annotated[
    str,
    typer.Option("--model", metavar="ID", help="For example openai/gpt-5. Embedded if not given."),
]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Instructions.")]
Once = Annotated[
    str | None, typer.Option("--once", metavar="TEXT", help="Ask this, print the answer, leave.")
]


@app.command()
def chat(model: Model = "local/smollm2", system: System = None, once: Once = None) -> None:
    """Talk to a model. Ctrl-C stops an answer, Ctrl-D leaves."""
    from .chat import converse

    if model.startswith("local/"):
        _need("openai", "xllamacpp")
    elif model.startswith("openai/"):
        _need("openai")
    try:
        converse(model, system=system, once=once, console=_console())
    except KeyboardInterrupt:
        _stopped()
    except ProcessionError as error:
        _fail(str(error), _code(error))


Target = Annotated[
    str, typer.Argument(metavar="MODULE:NAME", help="An App or an Agent; or path.py:name.")
]
AgentName = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="One agent of an app; else all.")
]
Thread = Annotated[str | None, typer.Option("--thread", metavar="ID", help="Of the conversation.")]
Resource = Annotated[str | None, typer.Option("--resource", metavar="ID", help="Whose it is.")]
Context = Annotated[
    list[str] | None,
    typer.Option("--context", metavar="KEY=VALUE", help="An entry of the request context."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def pipeline(
    target: Target,
    agent: AgentName = None,
    thread: Thread = None,
    resource: Resource = None,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """Show who runs in each hook of an agent, in order, and where each comes from.

    Lists that are functions of the request are asked when --thread, --resource or --context say
    what the request is. Nothing is run, and no model is called.
    """
    from .pipeline import Request, show_pipeline

    try:
        request = Request(thread, resource, context or ())
        show_pipeline(target, agent=agent, request=request, as_json=as_json, console=_console())
    except KeyboardInterrupt:
        _stopped()
    except ProcessionError as error:
        _fail(str(error), _code(error))


def _console() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


def _need(*packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        _fail(f"this needs {' and '.join(missing)}: pip install 'procession[local]'", 2)


def _code(error: ProcessionError) -> int:
    return 2 if isinstance(error, ConfigurationError) else 1


def _fail(problem: str, code: int) -> NoReturn:
    typer.echo(f"procession: {problem}", err=True)
    raise typer.Exit(code)


def _stopped() -> NoReturn:
    typer.echo("\nstopped", err=True)
    raise typer.Exit(130)
