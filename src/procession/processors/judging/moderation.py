"""`ModerationProcessor`: harmful content, rated by a model, category by category."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from ...errors import OptionError
from ...logs import log_fields
from ..guarding.text_guard import INPUT
from ..option_checks import flag, names, number, one_of, text_or_none
from .judge import Judge
from .judged_messages import is_remembered
from .moderation_verdict import CATEGORIES, ModerationVerdict, accepted, schema_of, task_of
from .text_judge import TextJudge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...messages import Message
    from ...model import ModelSpec
    from ...policy import Policy
    from ...processor import ProcessorViolation
    from ..guarding.sightings import Place
    from .budget import JudgeBudget
    from .text_judge import Granularity

__all__ = ["ModerationProcessor"]

_log = logging.getLogger("procession.processors")

_OWNER = "ModerationProcessor"


class ModerationProcessor(TextJudge):
    """Has a model rate texts in categories of harmful content (B-100 to B-109).

    - `model`: who judges; without one the agent's current model (B-021).
    - `categories`: what to look for; without it the eleven usual ones.
    - `threshold`: from which score on a category counts, 0 to 1, inclusive.
    - `strategy`: `"block"` aborts and asks for no retry; `"filter"` removes the message, in a
      stream the piece; `"warn"` lets it pass. Each is told to `on_violation`. A message that was
      remembered from earlier requests is removed under `"block"`: it would block all later ones.
    - `granularity`: how much of a stream is judged with one call: each `"delta"` as it comes, or a
      `"sentence"`, a `"part"`, a `"step"`, or at the `"end"` of a step all that was said in the
      run. Nothing leaves before it was judged. See `procession.hold.Unit`.
    - `chunk_window`: so many pieces before it are judged together with each piece.
    - `concurrency`: so many pieces of a stream are judged at a time, 4 unless it is given, deltas
      one after the other. What leaves keeps its order, and the earliest verdict counts.
    - `include_scores`: whether the reason gives all scores, not only the flagged categories.
    - `error_strategy`, `instructions`, `last_message_only`, `max_cost`, `provider_options`,
      `structured_output_options`: as for all judges (B-020 to B-025).

    What is judged is text: in messages one call for each (B-023), in a stream the pieces of text
    (B-105), and the whole answer once more when it is complete (B-107), unless it was one piece of
    that granularity. Raises `OptionError`, a `ValueError`, for an option that is none.
    """

    fixed_id = "moderation"
    owner = _OWNER

    def __init__(
        self,
        *,
        model: ModelSpec | None = None,
        categories: Sequence[str] = CATEGORIES,
        threshold: float = 0.5,
        strategy: Literal["block", "warn", "filter"] = "block",
        granularity: Granularity = "delta",
        chunk_window: int = 0,
        concurrency: int | None = None,
        include_scores: bool = False,
        error_strategy: Literal["warn", "strict"] = "warn",
        max_cost: float | JudgeBudget | None = None,
        instructions: str | None = None,
        last_message_only: bool = False,
        provider_options: Mapping[str, Any] | None = None,
        structured_output_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.strategy = one_of(_OWNER, "strategy", strategy, ("block", "warn", "filter"))
        super().__init__(
            granularity=granularity,
            chunk_window=chunk_window,
            context=chunk_window,
            concurrency=concurrency,
            drops=strategy == "filter",
            last_message_only=last_message_only,
            on_violation=on_violation,
            policy=policy,
        )
        self.categories = names(_OWNER, "categories", categories, None)
        if not self.categories:
            raise OptionError(f"{_OWNER}: categories must name at least one")
        self.threshold = number(_OWNER, "threshold", threshold, most=1.0)
        self.include_scores = flag(_OWNER, "include_scores", include_scores)
        self._judge = Judge(
            _OWNER,
            task=text_or_none(_OWNER, "instructions", instructions) or task_of(self.categories),
            schema=schema_of(self.categories),
            accepts=accepted(),
            model=model,
            error_strategy=error_strategy,
            max_cost=max_cost,
            provider_options=provider_options,
            structured_output_options=structured_output_options,
        )

    async def keeps(
        self, args: Any, place: Place, text: str, message: Message | None
    ) -> bool | None:
        """See `TextJudge.keeps`."""
        strategy = self.strategy
        if (
            message is not None
            and strategy == "block"
            and place.phase == INPUT
            and is_remembered(args, message)
        ):
            strategy = "filter"
        about = {"processor_id": self.id, "strategy": strategy, **place.named()}
        answer = await self._judge.ask(args, text, about)
        if answer is None:
            return None
        verdict = ModerationVerdict.of(answer, self.categories)
        flagged = verdict.flagged(self.threshold)
        if not flagged:
            return True
        types = list(flagged)
        detail = {**about, "types": types, "categories": types, "scores": flagged}
        reason = verdict.reason_for(types, with_scores=self.include_scores)
        if strategy == "block":
            args.abort(reason, metadata=detail)
        if strategy == "warn":
            fields = log_fields(self.id, args)
            _log.warning("%s, in %s: %s", self.id, place.phase, reason, extra=fields)
        waiting = self.report(reason, detail)
        if waiting is not None:
            await waiting
        return strategy == "warn"
