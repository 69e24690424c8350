"""The OpenAI API as far as the engine serves it: bodies to jobs, emissions to events.

What is not served is refused by name and never silently ignored, for a client that asks for
log-probabilities and gets none has been misled.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from kernels.runtime import InputError
from lessons.lib.config import SamplingParams
from lessons.lib.serve.engine_thread import Job

Json = dict[str, Any]
Kind = Literal["chat", "text"]

DEFAULT_MAX_TOKENS = 128
MAX_STOPS = 4  # as at OpenAI
_OBJECTS = {"chat": "chat.completion", "text": "text_completion"}
_NEUTRAL = {  # values at which an option asks for nothing
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "suffix": (None, ""),
    "tools": (None, []),
    "functions": (None, []),
    "response_format": (None, {"type": "text"}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
}
_SERVED = {
    "messages", "prompt", "model", "max_tokens", "max_completion_tokens", "temperature", "top_p",
    "top_k", "seed", "stop", "stream", "stream_options", "user",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A request body, checked. The usage flags say where a stream reports token counts."""

    kind: Kind
    job: Job
    is_stream: bool
    usage_at_end: bool
    usage_everywhere: bool


def read_call(body: Any, kind: Kind) -> Call:
    """InputError names the field that is wrong or not served."""
    if not isinstance(body, dict):
        raise InputError("the body must be a JSON object")
    for name, value in body.items():
        if name in _NEUTRAL and value not in _NEUTRAL[name]:
            raise InputError(f"{name}={value!r} is not served here")
        if name not in _NEUTRAL and name not in _SERVED:
            raise InputError(f"unknown field {name!r}")
    options = _typed(body, "stream_options", dict, {})
    count = _typed(body, "max_completion_tokens", int, None)
    if count is None:
        count = _typed(body, "max_tokens", int, DEFAULT_MAX_TOKENS)
    return Call(
        kind=kind,
        job=Job(_prompt(body, kind), count, _sampling(body), _stops(body)),
        is_stream=_typed(body, "stream", bool, False),
        usage_at_end=bool(options.get("include_usage")),
        usage_everywhere=bool(options.get("continuous_usage_stats")),
    )


def _typed(body: Json, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    """A field of the right type; absent and null are the default. true is no number."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name} has the wrong type: {value!r}")
    return value


def _prompt(body: Json, kind: Kind) -> str | list[dict[str, str]]:
    if kind == "text":
        prompt = _typed(body, "prompt", str, None)
        if not prompt:
            raise InputError("prompt must be a text that is not empty; one prompt a request")
        return str(prompt)
    messages = _typed(body, "messages", list, None)
    if not messages:
        raise InputError("messages must be a list that is not empty")
    return [_message(place, message) for place, message in enumerate(messages)]


def _message(place: int, message: Any) -> dict[str, str]:
    """Content is a text, or a list of text parts as newer clients send it."""
    where = f"messages[{place}]"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise InputError(f"{where} needs a role and a content")
    content = message.get("content")
    if isinstance(content, list):
        if any(not isinstance(p, dict) or p.get("type") != "text" for p in content):
            raise InputError(f"{where}: only text is served")
        content = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str):
        raise InputError(f"{where}: content must be a text")
    return {"role": message["role"], "content": content}


def _sampling(body: Json) -> SamplingParams:
    number = (int, float)
    return SamplingParams(
        temperature=float(_typed(body, "temperature", number, 1.0)),
        top_k=max(_typed(body, "top_k", int, 0), 0),  # -1 is off for vLLM and SGLang
        top_p=float(_typed(body, "top_p", number, 1.0)),
        seed=_typed(body, "seed", int, uuid4().int % 2**63),
    )


def _stops(body: Json) -> tuple[str, ...]:
    stop = _typed(body, "stop", (str, list), [])
    stops = [stop] if isinstance(stop, str) else stop
    if len(stops) > MAX_STOPS or any(not isinstance(word, str) or not word for word in stops):
        raise InputError(f"stop must be a text or up to {MAX_STOPS} of them, none empty")
    return tuple(stops)


class Answer:
    """Builds the bodies of one call: events of a stream, or one whole answer."""

    def __init__(self, call: Call, model: str, num_prompt_tokens: int) -> None:
        self._call = call
        self._prompt_tokens = num_prompt_tokens
        self._is_first = True
        self._head = {
            "id": f"{'chatcmpl' if call.kind == 'chat' else 'cmpl'}-{uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def event(self, text: str, num_tokens: int, finish_reason: str | None) -> bytes:
        """One chunk; num_tokens: all so far."""
        choice: Json = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
        if self._call.kind == "text":
            choice["text"] = text
        else:
            role = {"role": "assistant"} if self._is_first else {}
            choice["delta"] = role | {"content": text}
        self._is_first = False
        usage = self.usage(num_tokens) if self._call.usage_everywhere else None
        return self._sse([choice], usage)

    def last_events(self, num_tokens: int) -> bytes:
        """What ends a stream."""
        usage = self._sse([], self.usage(num_tokens)) if self._call.usage_at_end else b""
        return usage + b"data: [DONE]\n\n"

    def whole(self, text: str, num_tokens: int, finish_reason: str | None) -> Json:
        """The body of an answer that is not streamed."""
        choice: Json = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
        if self._call.kind == "text":
            choice["text"] = text
        else:
            choice["message"] = {"role": "assistant", "content": text}
        head = self._head | {"object": _OBJECTS[self._call.kind]}
        return head | {"choices": [choice], "usage": self.usage(num_tokens)}

    def usage(self, num_tokens: int) -> Json:
        """Token counts, the end-of-text token included: it was generated."""
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": num_tokens,
            "total_tokens": self._prompt_tokens + num_tokens,
        }

    def _sse(self, choices: list[Json], usage: Json | None) -> bytes:
        name = _OBJECTS[self._call.kind] + (".chunk" if self._call.kind == "chat" else "")
        body = self._head | {"object": name, "choices": choices}
        return sse(body if usage is None else body | {"usage": usage})


def sse(body: Json) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def error_body(message: str, kind: str) -> Json:
    """An error as OpenAI's clients expect it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
