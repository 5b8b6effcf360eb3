"""The package `openai-agents`: an agent whose model must call its tool, until the tool has been called ten times, by chat and by responses.
The model is random; a grammar makes its calls."""

import asyncio
from typing import Literal

import pytest

agents = pytest.importorskip("agents", reason="openai-agents is not installed")
import openai  # noqa: E402

import said  # noqa: E402
import tools as families  # noqa: E402
from server import Server  # noqa: E402

CALLS = 10


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents")
    calls, marks, special = families.FAMILIES["hermes"]
    families.write(path / "hermes", families.HEAD + families.MESSAGE.replace("CALLS", calls) + families.TAIL, marks, special)
    with Server("--models", path, "--max-tokens", "2000", "--max-prompt", "8000") as started:
        yield started
        started.wait_idle()


@pytest.mark.parametrize("kind", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
@pytest.mark.parametrize("streams", [False, True])
def test_an_agent_calls_its_tool_ten_times(caller, kind, streams):
    asked = []

    @agents.function_tool
    def weather(city: Literal["Oslo", "Rome"], days: Literal[1, 2, 3]) -> str:
        """The weather of a city."""
        asked.append((city, days))
        return f"sun for {days} days"

    def ends(_context, results):
        done = len(asked) >= CALLS
        return agents.ToolsToFinalOutputResult(is_final_output=done, final_output=results[-1].output if done else None)

    async def run():
        agents.set_tracing_disabled(True)
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{caller.port}/v1", api_key="none", max_retries=0) as client:
            settings = agents.ModelSettings(tool_choice="weather", parallel_tool_calls=False, temperature=1, max_tokens=400, include_usage=True,
                                            extra_body={"seed": said.SEED})
            agent = agents.Agent(name="traveller", instructions="Be kind.", tools=[weather], tool_use_behavior=ends, reset_tool_choice=False,
                                 model=getattr(agents, kind)(model="hermes", openai_client=client), model_settings=settings)
            if not streams:
                return await agents.Runner.run(agent, "Where is it warm?", max_turns=CALLS + 1)
            result = agents.Runner.run_streamed(agent, "Where is it warm?", max_turns=CALLS + 1)
            async for _ in result.stream_events():
                pass
            return result

    result = asyncio.run(run())
    assert len(asked) == CALLS and all(city in ("Oslo", "Rome") and days in (1, 2, 3) for city, days in asked)
    assert result.final_output == f"sun for {asked[-1][1]} days"
    assert len(result.raw_responses) == CALLS
    reads = [response.usage.input_tokens_details.cached_tokens for response in result.raw_responses]
    assert reads == sorted(reads) and reads[1] > 0
