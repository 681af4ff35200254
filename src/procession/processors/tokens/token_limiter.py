"""`TokenLimiter`: prompts and answers of a bounded number of tokens (B-250 to B-262)."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from ...chunks import Chunk
from ...errors import OptionError
from ...messages import Message
from ..builtin import BuiltIn
from ..option_checks import one_of, whole
from .token_counting import Tokens
from .token_output import AnswerLimit
from .token_prompt import PromptLimit, offered
from .token_texts import ChosenCounter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ...policy import Policy
    from ...processor import (
        ProcessInputArgs,
        ProcessInputStepArgs,
        ProcessLLMRequestArgs,
        ProcessLLMRequestResult,
        ProcessorViolation,
        ProcessOutputResultArgs,
        ProcessOutputStreamArgs,
    )
    from .token_counting import TokenCounter

__all__ = ["TokenLimiter", "TokenLimiterProcessor"]

_NAME = "TokenLimiter"
REACHED = "data-token-limit-reached"


class TokenLimiter(BuiltIn):
    """Keeps prompts, or answers, within `limit` tokens: `TokenLimiter(127000)`.

    Among input processors it leaves the oldest messages out of the prompt, for each call of the
    model anew; what is stored stays as it is. Never left out are system messages and the newest
    message of the user, and a tool call never without its result. With what the prompt costs the
    schemas of the tools are counted. `trim_mode`:

    - `best-fit`: as many of the newest messages as fit, with gaps where one is too large;
    - `contiguous`: back to the first one that does not fit;
    - `memory-only`: only messages that memory has loaded go, from the message list of this run,
      down to `limit - at_max_remove_tokens`; by default a quarter of the limit is made free.

    Among output processors it lets pass text up to `limit`: `strategy="truncate"` withholds the
    rest, `"abort"` ends the run. `count_mode="part"` compares each chunk alone.

    `encoding` is the name of an encoding, or an object with `encode(text)`; by default that of the
    model, where it is known, and an estimate that is rather too high else. `token_counter` is an
    object with `count_message(message)`, for those who know better. Raises `OptionError`, a
    `ValueError`, for options that it does not know.
    """

    fixed_id = "token-limiter"
    name = "Token limiter"
    description = "Keeps prompts and answers within a number of tokens."

    def __init__(
        self,
        limit: int,
        *,
        strategy: Literal["truncate", "abort"] = "truncate",
        count_mode: Literal["cumulative", "part"] = "cumulative",
        trim_mode: Literal["best-fit", "contiguous", "memory-only"] = "best-fit",
        encoding: Any = None,
        at_max_remove_tokens: int | None = None,
        token_counter: TokenCounter | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        self.limit = whole(_NAME, "limit", limit, least=1)
        self._aborts = one_of(_NAME, "strategy", strategy, ("truncate", "abort")) == "abort"
        self._by_part = one_of(_NAME, "count_mode", count_mode, ("cumulative", "part")) == "part"
        modes = ("best-fit", "contiguous", "memory-only")
        mode = one_of(_NAME, "trim_mode", trim_mode, modes)
        removed = limit // 4 if at_max_remove_tokens is None else at_max_remove_tokens
        if whole(_NAME, "at_max_remove_tokens", removed) > limit:
            raise OptionError(f"{_NAME}: at_max_remove_tokens must be at most the limit, {limit}")
        if token_counter is not None and not callable(
            getattr(token_counter, "count_message", None)
        ):
            raise OptionError(f"{_NAME}: token_counter must have a method count_message(message)")
        self._given = token_counter
        self._texts = ChosenCounter(encoding)
        self._prompt = PromptLimit(self.limit, gaps=mode == "best-fit", removed=removed)
        self._only_memory = mode == "memory-only"
        # Instances share their state with all others of the same id.
        self._key = f"__{self.id}:{id(self):x}"
        self._output_key = f"{self._key}:answer"

    def get_max_tokens(self) -> int:
        """The limit (B-262)."""
        return self.limit

    def count_message(self, message: Message | Mapping[str, Any]) -> int:
        """The tokens of a message, or of an entry of a prompt (B-262)."""
        tokens = Tokens(self._texts.without_model, self._given)
        return tokens.message(message) if isinstance(message, Message) else tokens.entry(message)

    # ── what goes in ───────────────────────────────────────────────────────────────────────────

    async def process_input(self, args: ProcessInputArgs) -> None:
        """Trim what memory has loaded, in the mode that does so (B-254)."""
        if self._only_memory:
            self._prompt.trim_memory(args.message_list, await self._tokens(args.state, None), {})

    async def process_input_step(self, args: ProcessInputStepArgs) -> list[Message] | None:
        """Trim the message list where that is how it is done (B-254, B-255)."""
        if self._only_memory:
            tokens = await self._tokens(args.state, args.model)
            self._prompt.trim_memory(args.message_list, tokens, offered(args))
            return None
        if args.llm_request_stage:
            return None
        return self._prompt.messages(args, await self._tokens(args.state, args.model))

    async def process_llm_request(
        self, args: ProcessLLMRequestArgs
    ) -> ProcessLLMRequestResult | None:
        """Trim the prompt (B-251 to B-253, B-256)."""
        if self._only_memory:
            return None
        return self._prompt.prompt(args, await self._tokens(args.state, args.model))

    async def _tokens(self, state: dict[str, Any], model: Any) -> Tokens:
        """The run's counter, for the encoding of the model that is asked."""
        texts = await self._texts.for_model(model)
        found: Tokens | None = state.get(self._key)
        if found is None or found.texts is not texts:
            found = state[self._key] = Tokens(texts, self._given)
        return found

    # ── what comes out ─────────────────────────────────────────────────────────────────────────

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Any:
        """Let pass what fits (B-258 to B-260)."""
        part = args.part
        kind = part.type
        if kind == "step-start":
            self._answer(args.state).begin(args.retry_count)
            return part
        if kind not in ("text-delta", "object"):
            return part
        answer = self._answer(args.state)
        tokens = answer.refuses(part)
        if not tokens:
            return part
        if self._aborts:
            args.abort(self._over(tokens))
        if answer.is_told:
            return self._with_beginning(part, answer.beginning)
        answer.is_told = True
        facts = {"processorId": self.id, "limit": self.limit, "tokens": tokens}
        notice = Chunk(type=REACHED, data=facts, transient=True)
        shown = self._with_beginning(part, answer.beginning)
        made = notice if shown is None else [shown, notice]
        told = self._tell(tokens, "process_output_stream")
        return made if told is None else _after(told, made)

    def _with_beginning(self, part: Chunk, text: str) -> Chunk | None:
        if not text:
            return None
        shown = copy(part)
        shown.payload = copy(part.payload)
        shown.payload.text = text
        return shown

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message] | None:
        """Shorten the answer, unless its stream was held to the limit already (B-261)."""
        if self._output_key in args.state:
            return None
        made, tokens = self._answer(args.state).shortened(args.messages)
        if not tokens:
            return None
        if self._aborts:
            args.abort(self._over(tokens))
        told = self._tell(tokens, "process_output_result")
        if told is not None:
            await told
        return made

    def _answer(self, state: dict[str, Any]) -> AnswerLimit:
        found: AnswerLimit | None = state.get(self._output_key)
        if found is None:
            tokens = Tokens(self._texts.without_model, self._given)
            found = AnswerLimit(tokens, self.limit, by_part=self._by_part)
            state[self._output_key] = found
        return found

    def _over(self, tokens: int) -> str:
        return f"The answer exceeds the token limit of {self.limit}: it has {tokens}."

    def _tell(self, tokens: int, phase: str) -> Awaitable[None] | None:
        detail = {
            "processor_id": self.id,
            "strategy": "truncate",
            "phase": phase,
            "limit": self.limit,
            "tokens": tokens,
        }
        return self.report(self._over(tokens), detail)


TokenLimiterProcessor = TokenLimiter


async def _after(told: Awaitable[None], made: Any) -> Any:
    await told
    return made
