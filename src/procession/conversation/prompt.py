"""From messages to the provider prompt (R-352 to R-379, R-398).

The prompt is plain data: `{role, content, providerOptions?}` entries. Its entries are remembered
on the messages and shared between prompts: read them, never change them. Converting again what has
not changed costs a comparison in C; of a growing answer only its last block is converted again.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from ..memo import REFUSED, SEEN, UNSEEN, PromptMemo
from ..messages import Part
from .prompt_entries import Entries, block_entries, block_starts, entries_of, single_text
from .prompt_files import has_urls
from .prompt_memo import Opaque, changed_at, same, snapshot, too_deep
from .prompt_parts import as_part
from .prompt_run import SHORTEST, PromptRun, run_of
from .remembering import remember

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..messages import Message

__all__ = ["Covered", "add_entries", "provider_prompt"]

_TAIL = 32
"""So many messages that are in no remembered run are worth a new one."""


class Covered(NamedTuple):
    """Messages that stand before a view: those of a run, which nobody can have changed."""

    run: PromptRun
    start: int
    length: int


def provider_prompt(
    system: Iterable[dict[str, Any]],
    view: Sequence[Message],
    *,
    keep_pending: bool = False,
    untouched: Message | None = None,
    covered: Covered | None = None,
) -> tuple[Entries, bool]:
    """The prompt of system messages and a conversation, and whether it names files by URL.

    `view` is in time order. With `keep_pending`, calls without outcome stay and get a stand-in
    result (R-376). Nobody but the engine has had `untouched` in hand since its last conversion: it
    only grew, so what is remembered of it is not compared. Raises `InputError` for file data that
    is neither base64 nor a URL (R-363).
    """
    prompt: Entries = list(system)
    first = len(prompt)
    urls = False
    if covered is not None:
        run, start, count = covered
        prompt += run.entries_of(start, count)
        urls = run.has_urls
    if add_entries(prompt, view, keep_pending=keep_pending, untouched=untouched):
        urls = True
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
    run: PromptRun | None = None
    begin = single = 0
    refused = False
    if len(view) >= SHORTEST:
        run = _run_in(view, keep_pending)
        if run is None and view[0].prompt_memo is UNSEEN:
            begin = len(view) - _TAIL
            urls = _add_unseen(entries, view[:begin], keep_pending)
    while begin < len(view):
        start, count = run.unchanged(view, begin) if run is not None else (0, 0)
        if run is not None and count:
            entries += run.entries_of(start, count)
            urls = urls or run.has_urls
            begin += count
            continue
        message = view[begin]
        memo: PromptMemo = message.prompt_memo
        facts = _facts(message, keep_pending)
        if memo.whole and same(message.content.parts, memo.parts) and same(facts, memo.facts):
            made, named = memo.entries, memo.has_urls
            single += 1
        else:
            refused = refused or memo is REFUSED
            made, named = _converted(message, facts, trusted=message is untouched)
        entries += made
        urls = urls or named
        begin += 1
    if single > _TAIL and not refused:
        remember(view[:-1], keep_pending=keep_pending)  # the last one may be growing
    return urls


def _run_in(view: Sequence[Message], keep_pending: bool) -> PromptRun | None:
    """The run that a long view is made of, found or made.

    A hook may have put messages of its own before the others.
    """
    for message in (view[0], view[1], view[len(view) // 2]):
        run = run_of(message)
        if run is not None and run.pending == keep_pending:
            return run
    if view[0].prompt_memo is UNSEEN or any(m.prompt_memo is REFUSED for m in view[:SHORTEST]):
        return None
    return remember(view[:-1], keep_pending=keep_pending)  # the last one may be growing


def _add_unseen(entries: Entries, view: Sequence[Message], keep_pending: bool) -> bool:
    """Messages that come for the first time are only converted: most are never seen again."""
    urls = False
    for message in view:
        entry = single_text(message)
        if entry is not None:
            entries.append(entry)
            continue
        made = entries_of(message, message.content.parts, keep_pending)
        entries += made
        urls = urls or has_urls(made)
    view[0].prompt_memo = SEEN
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
    old: PromptMemo = message.prompt_memo
    memo = PromptMemo(old.run)
    try:
        memo.facts = snapshot(facts)
        if facts[0] == "assistant" and parts:
            entries = _grown(memo, old, parts, trusted)
        else:
            memo.parts = snapshot(parts)
            entries = memo.entries = entries_of(message, memo.parts, facts[1])
            memo.has_urls = facts[0] != "assistant" and has_urls(entries)
            memo.whole = True
    except Opaque:
        entries = entries_of(message, parts, facts[1])
        return entries, has_urls(entries)
    except RecursionError:
        raise too_deep(message) from None
    message.prompt_memo = memo
    return entries, memo.has_urls or (not memo.whole and has_urls(entries))


def _grown(memo: PromptMemo, old: PromptMemo, parts: list[Part], trusted: bool) -> Entries:
    """Convert an assistant message block by block, from the first block that is not known yet.

    `memo` is filled with everything up to the first block that cannot be watched.
    """
    keep_pending, options = memo.facts[1], memo.facts[2]
    kept = _kept_blocks(memo, old, parts, trusted)
    begin = 0
    if kept:
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
        made = block_entries(block, options, keep_pending)
        entries += made
        memo.has_urls = memo.has_urls or (memo.whole and has_urls(made))
    return entries


def _make_parts(parts: list[Part], begin: int) -> None:
    """What was appended as a mapping becomes a part."""
    for index in range(begin, len(parts)):
        if not isinstance(parts[index], Part):  # pyright: ignore[reportUnnecessaryIsInstance]
            parts[index] = as_part(parts[index])


def _kept_blocks(memo: PromptMemo, old: PromptMemo, parts: list[Part], trusted: bool) -> int:
    """How many blocks of the remembered message are as they were and complete.

    When a step begins behind them, all are. Else the last one may go on, and is converted again,
    from its first part, which is unchanged: it is what cuts it from the one before.
    """
    if not old.bounds or not same(memo.facts, old.facts):
        return 0
    known = len(old.parts)
    if len(parts) > known and (trusted or same(parts[:known], old.parts)):
        follows = parts[known]
        whole = old.whole and getattr(follows, "type", None) == "step-start"
        return len(old.bounds) - (not whole)
    return max(bisect_left(old.bounds, (changed_at(parts, old.parts), 0)) - 1, 0)
