"""An answer in turns: each turn continues from the state of the turn before."""

from dataclasses import dataclass, field

import client
import lines

UPPER = lines.of_length(32)


class TurnFailed(Exception):
    """The server said no, or nothing: the turn was not acknowledged."""


def first_turn(prompt, seed, tokens):
    return {"prompt": prompt, "seed": seed, "max_tokens": tokens, "return_state": True}


def next_turn(state, tokens):
    return {"state": state, "max_tokens": tokens, "return_state": True}


def text_of(answer):
    return answer["choices"][0]["text"]


def state_of(answer):
    (state,) = answer["states"]
    assert state["id"], state
    return state["id"]


@dataclass
class Conversation:
    """The client's side of an answer that is made in turns."""

    prompt: str
    seed: int
    tokens: int  # a turn
    text: str = ""
    state: str = ""  # of the newest acknowledged turn
    ids: list = field(default_factory=list)

    @property
    def done(self):
        return len(self.text) >= len(self.prompt)

    def request(self):
        left = min(self.tokens, len(self.prompt) - len(self.text))
        if self.state:
            return next_turn(self.state, left)
        return first_turn(self.prompt, self.seed, left)

    def take(self, answer):
        """The turn is acknowledged: from here on it must not be lost."""
        self.text += text_of(answer)
        self.state = state_of(answer)
        self.ids.append(self.state)

    def turn(self, port):
        self.take(client.complete_ok(port, **self.request()))

    async def try_turn(self, port):
        """One turn on a connection of its own."""
        try:
            async with client.Connection(port) as connection:
                reply = await connection.complete(**self.request())
        except (OSError, EOFError) as error:
            raise TurnFailed(repr(error)) from None
        if reply.status != 200:
            raise TurnFailed(f"{reply.status}: {reply.text}")
        self.take(reply.json())


def whole(port, prompt, seed):
    """The answer that is never interrupted."""
    return text_of(client.complete_ok(port, prompt=prompt, seed=seed))
