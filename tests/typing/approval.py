"""Runs that wait, and how they go on."""

from typing import assert_type

from procession import Agent, Chunk, FullOutput, Run, ToolContext, WaitingCalls, tool
from procession.tools import Tool


@tool(require_approval=lambda args: args["amount"] > 100, resume_schema={"type": "object"})
async def pay(amount: int, context: ToolContext) -> str:
    """Pay."""
    if not context.resumed:
        context.suspend({"question": "PIN?"})
    return f"paid {amount}"


assert_type(pay, Tool)
agent = Agent(id="a", tools=[pay], waiting_calls=WaitingCalls(limit=10, expires_after=60))


async def main() -> None:
    result = await agent.generate("Pay", require_tool_approval=True)
    assert_type(result.waiting, list[Chunk])
    run = await agent.approve_tool_call(result.run_id, "c1", abort_signal=None)
    assert_type(run, Run)
    assert_type(await run.waiting, list[Chunk])
    declined = await agent.decline_tool_call_generate(result.run_id, reason="No.")
    assert_type(declined, FullOutput)
    await agent.resume_tool_call(result.run_id, data={"pin": "0000"})
    await agent.approve_tool_call(result.run_id, instructions="no")  # type: ignore[call-arg]
