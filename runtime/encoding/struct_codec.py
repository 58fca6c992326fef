"""Structs on the wire: values one after the other, by functions that are written out as source.

A loop over the fields takes two to four times as long, and every transaction runs these functions dozens of times.
Consecutive fields of constant length are read with one check of the length.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from struct import Struct
from types import CodeType
from typing import Any

from runtime.encoding.scale import SPANS, DecodeError, Wire

SOURCES_MAX = 4096
Part = tuple[str, Wire]
"""An expression of `value`, such as `value.nonce`, and its wire."""


def struct_wire(parts: list[Part], build: Callable[..., Any], prefix: bytes = b"") -> Wire:
    """Return the wire that encodes `prefix` and every part. It decodes the parts and joins them by `build`."""
    scope: dict[str, Any] = {"build": build, "prefix": prefix, "from_bytes": int.from_bytes, "DecodeError": DecodeError}
    terms = ["prefix"] if prefix else []
    for index, part in enumerate(parts):
        _, (encode, decode) = part
        scope[f"e{index}"] = encode
        scope[f"d{index}"] = decode
        terms.append(_encoding(index, part))
    statements = "".join(f"    {statement}\n" for statement in _unpacking(parts, scope))
    values = ", ".join(_value(index, part) for index, part in enumerate(parts))
    source = (
        f"def encode(value):\n    return {' + '.join(terms) or 'prefix'}\n"
        f"def decode(data, at):\n{statements}    return build({values}), at\n"
    )
    exec(_compiled(source), scope)  # noqa: S102  # deterministic: the source is built from our own declarations only
    return scope["encode"], scope["decode"]


@lru_cache(maxsize=SOURCES_MAX)
def _compiled(source: str) -> CodeType:
    """Return the compiled code of a struct's two functions.

    Cached: compiling takes most of the time, and many structs have the same source.
    """
    return compile(source, "<string>", "exec")  # deterministic: as above


def _encoding(index: int, part: Part) -> str:
    expression, (_, decode) = part
    span = SPANS.get(decode)
    if span is None or not span.encode:
        return f"e{index}({expression})"
    return span.encode.format(value=expression)


def _unpacking(parts: list[Part], scope: dict[str, Any]) -> Iterator[str]:
    """Yield statements that read the parts from the data: one for each part or run of parts of constant length."""
    decoders = [(f"v{index}", decode) for index, (_, (_, decode)) in enumerate(parts)]
    for is_constant, group in groupby(decoders, lambda decoder: decoder[1] in SPANS):
        run = list(group)
        if not is_constant:
            yield from (f"{name}, at = d{name[1:]}(data, at)" for name, _ in run)
            continue
        layout = Struct("<" + "".join(SPANS[decode].format for _, decode in run))
        unpack = "unpack_" + run[0][0]
        scope[unpack] = layout.unpack_from
        yield f"end = at + {layout.size}"
        # Checked first: on short input `unpack_from` raises `struct.error`, which no caller expects.
        yield "if end > len(data): raise DecodeError('end of input', len(data))"
        yield f"{', '.join(name for name, _ in run)}, = {unpack}(data, at)"
        yield "at = end"


def _value(index: int, part: Part) -> str:
    """Return the expression for the value of an unpacked part."""
    span = SPANS.get(part[1][1])
    return f"v{index}" if span is None else span.decode.format(value=f"v{index}")
