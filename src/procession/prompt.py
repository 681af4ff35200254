"""From messages to the provider prompt (R-352 to R-379, R-398).

The prompt is plain data: `{role, content, providerOptions?}` entries. Its entries are remembered
on the messages and shared between prompts: read them, never change them. Converting again what has
not changed costs a comparison in C; of a growing answer only its last block is converted again.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from .messages import Message, Part, TextPart, ToolInvocationPart
from .prompt_files import has_urls
from .prompt_memo import Opaque, PromptMemo, changed_at, same, snapshot
from .prompt_parts import (
    as_part,
    assistant_part,
    attachment_parts,
    has_outcome,
    said_by,
    tool_call,
    tool_result,
    user_content,
    with_options,
)
from .prompt_run import SHORTEST, remember_run, run_of
from .signals import signal_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["add_entries", "block_starts", "provider_prompt"]

Entries = list[dict[str, Any]]

_TAIL = 32
"""So many messages behind a remembered run are worth a new one."""


def provider_prompt(
    system: Iterable[dict[str, Any]],
    view: Sequence[Message],
    *,
    keep_pending: bool = False,
    untouched: Message | None = None,
) -> tuple[Entries, bool]:
    """The prompt of system messages and a conversation, and whether it names files by URL.

    `view` is in time order. With `keep_pending`, calls without outcome stay and get a stand-in
    result (R-376). Nobody but the engine has had `untouched` in hand since its last conversion: it
    only grew, so what is remembered of it is not compared. Raises `InputError` for file data that
    is neither base64 nor a URL (R-363).
    """
    prompt: Entries = list(system)
    first = len(prompt)
    urls = add_entries(prompt, view, keep_pending=keep_pending, untouched=untouched)
    if len(prompt) > first and prompt[first]["role"] != "user":
        # Some providers refuse a conversation that begins with anything else.
        prompt.insert(first, {"role": "user", "content": [{"type": "text", "text": "."}]})
    return prompt, urls


def add_entries(
    entries: Entries,
    view: Sequence[Message],
    *,
    keep_pending: bool = False,
    untouched: Message | None = None,
) -> bool:
    """Append the prompt entries of a conversation; returns whether they name files by URL."""
    urls = False
    covered = 0
    if len(view) >= SHORTEST:
        run = run_of(view[0])
        if run is not None and run.pending == keep_pending:
            covered, known = run.entries_for(view, _facts)
            entries += known
            urls = run.has_urls
    for message in view[covered:] if covered else view:
        memo: PromptMemo | None = message.prompt_memo
        facts = _facts(message, keep_pending)
        if (
            memo is not None
            and memo.whole
            and same(message.content.parts, memo.parts)
            and same(facts, memo.facts)
        ):
            entries += memo.entries
            urls = urls or memo.has_urls
        else:
            made, named = _converted(message, facts, trusted=message is untouched)
            entries += made
            urls = urls or named
    if len(view) - covered > _TAIL and len(view) > SHORTEST:
        remember_run(view[:-1])  # the last one may be growing
    return urls


def _facts(message: Message, keep_pending: bool) -> tuple[Any, ...]:
    """What the conversion depends on, beside the parts."""
    content = message.content
    role = message.role
    return (
        role,
        keep_pending,
        content.provider_metadata,
        content.experimental_attachments,
        None if content.parts else content.content,
        ((content.metadata or {}).get("signal"), message.type) if role == "signal" else None,
    )


def _converted(message: Message, facts: tuple[Any, ...], *, trusted: bool) -> tuple[Entries, bool]:
    """Convert a message, and remember what can be: its entries, and whether URLs are in them."""
    parts = message.content.parts
    old: PromptMemo | None = message.prompt_memo
    memo = PromptMemo(old.stamped if old is not None else 0)
    memo.run = old.run if old is not None else None
    try:
        memo.facts = snapshot(facts)
        if facts[0] == "assistant" and parts:
            entries = _grown(memo, old, parts, trusted)
        else:
            memo.parts = snapshot(parts)
            entries = memo.entries = _entries(message, memo.parts, facts[1])
            memo.has_urls = facts[0] != "assistant" and has_urls(entries)
            memo.whole = True
    except Opaque:
        entries = _entries(message, parts, facts[1])
        return entries, has_urls(entries)
    message.prompt_memo = memo
    return entries, memo.has_urls or (not memo.whole and has_urls(entries))


def _entries(message: Message, parts: Sequence[Part], keep_pending: bool) -> Entries:
    """The entries of a message that is converted in one go."""
    content = message.content
    parts = [as_part(part) for part in parts]
    if not parts and content.content:
        parts = [TextPart(text=content.content)]
    options = content.provider_metadata
    if message.role == "assistant":
        return _assistant_entries(parts, options, keep_pending)
    if message.role == "signal":
        said = signal_content(message)
    elif message.role == "user":
        if content.experimental_attachments:
            parts = [*attachment_parts(content.experimental_attachments, parts), *parts]
        said = user_content(parts)
    else:
        return []
    return [with_options({"role": "user", "content": said}, options)] if said else []


def _assistant_entries(parts: Sequence[Part], options: Any, keep_pending: bool) -> Entries:
    starts = block_starts(parts, 0, keep_pending)
    entries: Entries = []
    for begin, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        entries += _block_entries(parts[begin:end], options, keep_pending)
    return entries


def _grown(memo: PromptMemo, old: PromptMemo | None, parts: list[Part], trusted: bool) -> Entries:
    """Convert an assistant message block by block, from the first block that is not known yet.

    `memo` is filled with everything up to the first block that cannot be watched.
    """
    keep_pending, options = memo.facts[1], memo.facts[2]
    kept = _kept_blocks(memo, old, parts, trusted)
    begin = 0
    if old is not None and kept:
        whole = kept == len(old.bounds)
        begin, entry = (len(old.parts), len(old.entries)) if whole else old.bounds[kept]
        memo.bounds = old.bounds[:kept]
        memo.parts = old.parts[:begin]
        memo.entries = old.entries[:entry]
        memo.has_urls = old.has_urls
    _make_parts(parts, begin)
    starts = block_starts(parts, begin, keep_pending)
    entries, memo.whole = memo.entries, True
    for start, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        block: Sequence[Part] = parts[start:end]
        if memo.whole:
            try:
                block = snapshot(block)
            except Opaque:
                memo.whole = False
                entries = memo.entries.copy()
            else:
                memo.bounds.append((start, len(entries)))
                memo.parts += block
        made = _block_entries(block, options, keep_pending)
        entries += made
        memo.has_urls = memo.has_urls or (memo.whole and has_urls(made))
    return entries


def _make_parts(parts: list[Part], begin: int) -> None:
    """What was appended as a mapping becomes a part."""
    for index in range(begin, len(parts)):
        if not isinstance(parts[index], Part):  # pyright: ignore[reportUnnecessaryIsInstance]
            parts[index] = as_part(parts[index])


def _kept_blocks(memo: PromptMemo, old: PromptMemo | None, parts: list[Part], trusted: bool) -> int:
    """How many blocks of the remembered message are as they were and complete.

    When a step begins behind them, all are. Else the last one may go on, and is converted again,
    from its first part, which is unchanged: it is what cuts it from the one before.
    """
    if old is None or not old.bounds or not same(memo.facts, old.facts):
        return 0
    known = len(old.parts)
    if len(parts) > known and (trusted or same(parts[:known], old.parts)):
        follows = parts[known]
        whole = old.whole and getattr(follows, "type", None) == "step-start"
        return len(old.bounds) - (not whole)
    return max(bisect_left(old.bounds, (changed_at(parts, old.parts), 0)) - 1, 0)


def block_starts(parts: Sequence[Part], begin: int, keep_pending: bool) -> list[int]:
    """Where blocks begin: at step starts, and where something follows a tool (R-369).

    Parts that give nothing do not cut: a data part between two calls leaves them side by side.
    """
    starts = [begin]
    after_tool = False
    for index in range(begin, len(parts)):
        part = parts[index]
        kind = part.type
        if kind == "step-start":
            after_tool = False
        elif isinstance(part, ToolInvocationPart) and kind == "tool-invocation":
            after_tool = after_tool or keep_pending or has_outcome(part.tool_invocation)
            continue
        elif not after_tool or not _says_something(part):
            continue
        after_tool = False
        if index != starts[-1]:
            starts.append(index)
    return starts


def _says_something(part: Part) -> bool:
    kind = part.type
    return kind in ("reasoning", "file") or (kind == "text" and bool(said_by(part)))


def _block_entries(parts: Sequence[Part], options: Any, keep_pending: bool) -> Entries:
    """One assistant entry, and one tool entry when calls of the block have outcomes (R-370)."""
    said: Entries = []
    outcomes: Entries = []
    for part in parts:
        if isinstance(part, ToolInvocationPart) and part.type == "tool-invocation":
            if keep_pending or has_outcome(part.tool_invocation):
                said.append(tool_call(part))
                (said if part.provider_executed else outcomes).append(tool_result(part))
        elif (entry := assistant_part(part)) is not None:
            said.append(entry)
    entries: Entries = []
    if said:
        entries.append(with_options({"role": "assistant", "content": said}, options))
    if outcomes:
        entries.append(with_options({"role": "tool", "content": outcomes}, options))
    return entries
