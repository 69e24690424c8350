"""The only form in which data crosses the sandbox's border: tagged JSON.

Used on both sides, so the standard library only. The worker's half (`to_wire`) is courtesy:
it makes a number out of whatever the student returned. The grader's half (`from_wire`) is the
guard: it builds nothing but None, bool, int, float, str, list, tuple and dict, within limits,
whatever the other side sends.

A list is a JSON list; every other container is an object {"!": tag, "v": ...}, so no student's
dictionary can look like a tag.
"""

import json
import math
import sys
from typing import Any

MAX_MESSAGE_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_NODES = 100_000
MAX_INT_BITS = 4096


class WireError(ValueError):
    """A value that is not plain data, or a message that is not ours."""


def dumps(message: dict[str, Any]) -> bytes:
    """One message as one line. Raises WireError if it is over the cap."""
    line = json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
    if len(line) > MAX_MESSAGE_BYTES:
        raise WireError("value too large")
    return line


def loads(line: bytes) -> dict[str, Any]:
    """The message in a line. Raises WireError for anything but one JSON object."""
    try:
        message = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a message: {type(error).__name__}") from None
    if not isinstance(message, dict):
        raise WireError("not a message: no object")
    return message


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def to_wire(value: Any, depth: int = 0) -> Any:
    """Turn a value into tagged JSON, through base-class methods that nothing can override.

    A subclass of float becomes the float it stores; numpy and torch scalars go through item().
    """
    if depth > MAX_DEPTH:
        raise WireError("value nested too deeply")
    if value is None or value is True or value is False:
        return value
    kind = type(value)  # isinstance would believe an object's own __class__
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return _plain_int(int.__int__(value))
    if issubclass(kind, float):
        return _float_to_wire(float.__float__(value))
    if issubclass(kind, list | tuple | dict) and len(value) > MAX_NODES:
        raise WireError("value too large")
    if issubclass(kind, list):
        return [to_wire(item, depth + 1) for item in list.__iter__(value)]
    if issubclass(kind, tuple):
        items = [to_wire(item, depth + 1) for item in tuple.__iter__(value)]
        return {"!": "tuple", "v": items}
    if issubclass(kind, dict):
        pairs = [[to_wire(k, depth + 1), to_wire(v, depth + 1)] for k, v in dict.items(value)]
        return {"!": "dict", "v": pairs}
    return to_wire(_from_array_library(value), depth + 1)


def _float_to_wire(value: float) -> Any:
    return value if math.isfinite(value) else {"!": "float", "v": repr(value)}


def _plain_int(value: int) -> int:
    if value.bit_length() > MAX_INT_BITS:
        raise WireError("integer too large")
    return value


def _from_array_library(value: Any) -> Any:
    """The Python value of a numpy or torch scalar or array; WireError for anything else."""
    for module, names in (("numpy", ("generic", "ndarray")), ("torch", ("Tensor",))):
        library = sys.modules.get(module)
        kinds = tuple(getattr(library, name) for name in names) if library else ()
        if not issubclass(type(value), kinds):
            continue
        size = value.numel() if module == "torch" else value.size
        if size > MAX_NODES:
            raise WireError("value too large")
        plain = value.tolist()
        if type(plain) in (bool, int, float, str, list):
            return plain
    raise WireError(type.__getattribute__(type(value), "__name__"))


def from_wire(data: Any) -> Any:
    """Rebuild a plain value. Raises WireError on anything `to_wire` cannot have made."""
    return _Reader().read(data, 0)


class _Reader:
    """One pass over a decoded message; counts nodes so that size is bounded."""

    def __init__(self) -> None:
        self.num_nodes = 0

    def read(self, data: Any, depth: int) -> Any:
        self.num_nodes += 1
        if depth > MAX_DEPTH or self.num_nodes > MAX_NODES:
            raise WireError("value too large or nested too deeply")
        if data is None or isinstance(data, bool | str):
            return data
        if isinstance(data, int):
            return _plain_int(data)
        if isinstance(data, float):
            if not math.isfinite(data):
                raise WireError("untagged non-finite number")
            return data
        if isinstance(data, list):
            return [self.read(item, depth + 1) for item in data]
        return self._tagged(data, depth)

    def _tagged(self, data: dict[str, Any], depth: int) -> Any:
        tag, content = data.get("!"), data.get("v")
        if tag == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if tag == "tuple" and isinstance(content, list):
            return tuple(self.read(item, depth + 1) for item in content)
        if tag == "dict" and isinstance(content, list):
            return dict(self._pair(pair, depth) for pair in content)
        raise WireError("unknown tag")

    def _pair(self, pair: Any, depth: int) -> tuple[Any, Any]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise WireError("bad dictionary entry")
        key = self.read(pair[0], depth + 1)
        if not isinstance(key, str | int | float | bool | None):
            raise WireError("dictionary key is not plain")
        return key, self.read(pair[1], depth + 1)
