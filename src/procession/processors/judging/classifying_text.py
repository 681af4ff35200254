"""Having a text classified within a hook, and telling when that failed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from .budget import counting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...hook_args import HookArgs
    from .budget import SpentBudget
    from .classifier import Classifier, ClassifierResult

__all__ = ["classified", "note_failure"]

_log = logging.getLogger("procession.processors")


async def classified(
    classifier: Classifier,
    args: HookArgs[Any],
    text: str,
    provider_options: Mapping[str, Any] | None,
    budget: SpentBudget | None = None,
) -> ClassifierResult:
    """What a classifier makes of a text: its tokens are counted, and a stop of the run ends it.

    Raises `BudgetSpent` where it may not be asked any more.
    """
    if budget is not None:
        budget.check(args.state)
    model = getattr(classifier.model, "language_model", classifier.model)
    return await classifier.evaluate(
        text,
        max_retries=args.max_retries,
        provider_options=provider_options,
        abort_signal=args.abort_signal,
        run_id=args.run_id,
        count_usage=counting(args, model, budget),
    )


def note_failure(
    args: HookArgs[Any], processor_id: str, hook: str, error: Exception, *, blocks: bool
) -> None:
    """Log a failure, and make it an event of the run: its kind alone, words may repeat texts."""
    kind = type(error.__cause__ or error).__name__
    _log.warning("%s: the text could not be classified: %s", processor_id, kind)
    args.note_failure(processor_id, hook, "blocked" if blocks else "bypassed", kind)
