"""The Python blocks of README.md and docs/ do what the text around them says.

All blocks of a file share one namespace and one event loop, and may use top-level `await`.
`<!-- no-run: REASON -->` before a block: it is compiled only. `<!-- output -->` before a `text`
block: it must equal what the Python block above it printed. Providers answer on
loopback.
"""

import ast
import asyncio
import builtins
import inspect
import itertools
import re
import sys
import types
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from procession import Agent, processors
from procession.processor import ERROR_HOOKS, HOOKS, INPUT_HOOKS, OUTPUT_HOOKS
from procession.testing import ScriptedModel, answer, text, tool_call
from tests.loopback import providers_on_loopback

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(
    r"(?:^<!-- *(?P<note>[^\n]*?) *-->\n\s*)?"
    r"^```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block: where its body starts, and what the comment before it says."""

    language: str
    body: str
    line: int
    note: str


def read_blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a document, in order."""
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        yield Block(match["language"], match["body"], line, match["note"] or "")


def run_document(path: Path, text: str) -> None:
    """Run the Python blocks and compare the outputs that the document promises."""
    # A real module: pydantic and msgspec look up annotations in sys.modules.
    module = types.ModuleType("_document")
    printed = ""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setitem(sys.modules, module.__name__, module)
        for block in read_blocks(text):
            if block.language == "python":
                code = compile_block(path, block)
                printed = "" if is_not_run(block) else run_block(code, module, runner)
            elif block.language == "text" and block.note == "output":
                assert printed == block.body, f"{path.name}:{block.line}: another output"


def is_not_run(block: Block) -> bool:
    """Whether the block is only compiled; it has to say why."""
    return block.note.startswith("no-run:") and block.note != "no-run:"


def compile_block(path: Path, block: Block) -> types.CodeType:
    """Compile the block, with the line numbers of its document."""
    source = "\n" * (block.line - 1) + block.body
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, str(path), "exec", flags=flags, dont_inherit=True)


def run_block(code: types.CodeType, module: types.ModuleType, runner: asyncio.Runner) -> str:
    """Run the block; what it printed."""
    with redirect_stdout(StringIO()) as output:
        if code.co_flags & inspect.CO_COROUTINE:
            runner.run(types.FunctionType(code, module.__dict__)())
        else:
            exec(code, module.__dict__)
    return output.getvalue()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text("utf-8")
    with providers_on_loopback(monkeypatch):
        run_document(path, text)
    # An indented or unclosed block would be passed over in silence.
    assert text.count("```python") == sum(block.language == "python" for block in read_blocks(text))


def readme_blocks() -> list[Block]:
    return [
        b for b in read_blocks((ROOT / "README.md").read_text("utf-8")) if b.language == "python"
    ]


@pytest.mark.parametrize("block", readme_blocks(), ids=lambda block: f"line {block.line}")
def test_a_block_of_the_readme_is_a_whole_script(block: Block) -> None:
    """It is the first thing that people copy into a file: no name of another block, no `await`."""
    tree = ast.parse(block.body)  # which does not know of top-level `await`
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            known |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.arg):
            known.add(node.arg)
    assert {node.id for node in names} <= known
    awaits = [
        node for node in tree.body for inner in ast.walk(node) if isinstance(inner, ast.Await)
    ]
    assert all(isinstance(node, ast.AsyncFunctionDef) for node in awaits)
    if not is_not_run(block):
        with redirect_stdout(StringIO()):
            exec(compile(tree, "README.md", "exec"), {"__name__": "__main__"})


JOINS = ("delta", "block", "step")


def cut(pieces: list[str], joins: tuple[str, ...]) -> list[Any]:
    """A script that says the pieces: in one block, in several, or in several steps."""
    steps: list[list[list[str]]] = [[[pieces[0]]]]
    for join, piece in zip(joins, pieces[1:], strict=True):
        if join == "delta":
            steps[-1][-1].append(piece)
        elif join == "block":
            steps[-1].append([piece])
        else:
            steps.append([[piece]])
    return [
        [part for texts in blocks for part in text(*texts)]
        + answer(tool_calls=[tool_call("weather", {"city": "x"})] if more else []).parts
        for blocks, more in zip(steps, [True] * (len(steps) - 1) + [False], strict=True)
    ]


def test_the_filter_of_the_streaming_guide_holds_for_any_cut() -> None:
    """Any cutting: over deltas, blocks and steps, a secret is never in the text."""
    module = types.ModuleType("_document")
    path = ROOT / "docs" / "streaming.md"
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setitem(sys.modules, module.__name__, module)
        for block in read_blocks(path.read_text("utf-8")):
            if block.language == "python" and not hasattr(module, "HidePier"):
                run_block(compile_block(path, block), module, runner)
        said = "p pier 7."
        for first, second in itertools.combinations(range(1, len(said)), 2):
            for joins in itertools.product(JOINS, repeat=2):
                pieces = [said[:first], said[first:second], said[second:]]
                model = ScriptedModel(cut(pieces, joins))
                agent = Agent(
                    id="a",
                    model=model,
                    tools=[module.weather],
                    output_processors=[module.HidePier()],
                )
                result = runner.run(agent.generate("go"))
                assert module.SECRET not in result.text, (pieces, joins)
                assert module.MASK in result.text, (pieces, joins)
                if joins == ("delta", "delta"):
                    assert result.text == "p [place]."


SAMPLE = """
```python
import asyncio

count = 1
```

```python
await asyncio.sleep(0)
print("count:", count)
```

<!-- output -->
```text
count: 1
```

<!-- no-run: needs a key -->
```python
raise SystemExit
```
"""


def run_sample(text: str) -> None:
    run_document(Path("sample.md"), text)


def test_blocks_share_a_namespace_and_may_await() -> None:
    run_sample(SAMPLE)


def test_another_output_is_reported_with_its_line() -> None:
    with pytest.raises(AssertionError, match=r"sample\.md:15"):
        run_sample(SAMPLE.replace("count = 1", "count = 2"))


def test_a_block_that_is_not_run_is_compiled() -> None:
    with pytest.raises(SyntaxError):
        run_sample(SAMPLE.replace("raise SystemExit", "raise ="))


def test_not_running_a_block_needs_a_reason() -> None:
    with pytest.raises(SystemExit):
        run_sample(SAMPLE.replace("no-run: needs a key", "no-run:"))


BUILT_INS = ROOT / "docs" / "builtin"
TABLE_ROW = re.compile(r"^\| \[(\w+)\]\(([\w-]+\.md)\) \|[^|]*\| ([^|]*) \|", re.MULTILINE)
LISTS = {"input": INPUT_HOOKS, "output": OUTPUT_HOOKS, "error": ERROR_HOOKS}


def built_ins() -> set[type]:
    """The public processors: what has a hook. Some have two names."""
    public = [getattr(processors, name) for name in processors.__all__]
    return {one for one in public if inspect.isclass(one) and hooks_of(one, HOOKS)}


def hooks_of(processor: type, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if callable(getattr(processor, name, None))]


def rows() -> dict[str, tuple[str, str]]:
    """The page and the lists of each row of the table of built-ins."""
    table = (BUILT_INS / "README.md").read_text("utf-8")
    return {name: (page, lists) for name, page, lists in TABLE_ROW.findall(table)}


def test_the_table_has_every_built_in() -> None:
    assert {getattr(processors, name) for name in rows()} == built_ins()


@pytest.mark.parametrize("name", rows())
def test_a_row_says_the_lists_of_its_processor_and_links_its_page(name: str) -> None:
    page, told = rows()[name]
    processor = getattr(processors, name)
    has = {where for where, names in LISTS.items() if hooks_of(processor, names)}
    assert set(re.findall("input|output|error", told)) == has
    assert f"# {name}\n" in (BUILT_INS / page).read_text("utf-8")


def anchors(path: Path) -> set[str]:
    """What a link into a page may name: its headings, as they are made ids of."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        page = path.parent / target if target else path
        assert page.exists(), target
        if anchor:
            assert anchor in anchors(page), f"{target}#{anchor}"
