"""Structs on the wire: values one after the other, by functions that are written out as source.

A loop over the fields takes two to four times as long, and every transaction passes here dozens of times. Fields of
constant length that follow each other are read with one check of the length.
"""

from collections.abc import Callable
from itertools import groupby
from typing import Any

from runtime.scale import SPANS, DecodeError, Wire

Part = tuple[str, Wire]
"""An expression of `value`, such as `value.nonce`, and how it is encoded."""


def product(parts: list[Part], build: Callable[..., Any], prefix: bytes = b"") -> Wire:
    """Encode `prefix` and then every part; decode the parts alone and join them by `build`."""
    scope: dict[str, Any] = {"build": build, "prefix": prefix, "from_bytes": int.from_bytes, "DecodeError": DecodeError}
    for number, (_, (encode, decode)) in enumerate(parts):
        scope[f"e{number}"], scope[f"d{number}"] = encode, decode
    terms = ["prefix"] * bool(prefix) + [_encoding(number, part) for number, part in enumerate(parts)]
    names = ", ".join(f"v{number}" for number in range(len(parts)))
    source = (
        f"def encode(value):\n    return {' + '.join(terms) or 'prefix'}\n"
        f"def decode(data, at):\n{_decoding(parts)}    return build({names}), at\n"
    )
    exec(source, scope)  # noqa: S102  # deterministic: the source is built from our own declarations only
    return scope["encode"], scope["decode"]


def _encoding(number: int, part: Part) -> str:
    expression, (_, decode) = part
    span = SPANS.get(decode)
    if span is None or not span.encode:
        return f"e{number}({expression})"
    return span.encode.format(value=expression)


def _decoding(parts: list[Part]) -> str:
    """One statement a part; runs of parts of constant length share a check."""
    lines = []
    for constant, group in groupby(enumerate(parts), lambda one: one[1][1][1] in SPANS):
        run = [(number, decode) for number, (_, (_, decode)) in group]
        if not constant:
            lines += [f"v{number}, at = d{number}(data, at)" for number, _ in run]
            continue
        size = sum(SPANS[decode].size for _, decode in run)
        lines += [f"end = at + {size}", "if end > len(data): raise DecodeError('end of input', len(data))"]
        offset = 0
        for number, decode in run:
            span = SPANS[decode]
            start, end = f"at + {offset}", f"at + {offset + span.size}"
            lines.append(f"v{number} = {span.decode.format(start=start, end=end)}")
            offset += span.size
        lines.append("at = end")
    return "".join(f"    {line}\n" for line in lines)
