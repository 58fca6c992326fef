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


def struct_wire(struct_parts: list[Part], build: Callable[..., Any], prefix: bytes = b"") -> Wire:
    """Return the wire that encodes `prefix` and every part. It decodes the parts and joins them by `build`."""
    scope: dict[str, Any] = {"build": build, "prefix": prefix, "from_bytes": int.from_bytes, "DecodeError": DecodeError}
    encode_terms = ["prefix"] if prefix else []
    for part_index, struct_part in enumerate(struct_parts):
        _, (encode, decode) = struct_part
        scope[f"e{part_index}"] = encode
        scope[f"d{part_index}"] = decode
        encode_terms.append(_encoding(part_index, struct_part))
    statements = "".join(f"    {statement}\n" for statement in _unpacking(struct_parts, scope))
    value_list = ", ".join(_value(part_index, struct_part) for part_index, struct_part in enumerate(struct_parts))
    source = (
        f"def encode(value):\n    return {' + '.join(encode_terms) or 'prefix'}\n"
        f"def decode(data, at):\n{statements}    return build({value_list}), at\n"
    )
    exec(_compiled(source), scope)  # noqa: S102  # deterministic: the source is built from our own declarations only
    return scope["encode"], scope["decode"]


@lru_cache(maxsize=SOURCES_MAX)
def _compiled(source: str) -> CodeType:
    """Return the compiled code of a struct's two functions.

    Cached: compiling takes most of the time, and many structs have the same source.
    """
    return compile(source, "<string>", "exec")  # deterministic: as above


def _encoding(part_index: int, struct_part: Part) -> str:
    expression, (_, decode) = struct_part
    constant_span = SPANS.get(decode)
    if constant_span is None or not constant_span.encode:
        return f"e{part_index}({expression})"
    return constant_span.encode.format(value=expression)


def _unpacking(struct_parts: list[Part], scope: dict[str, Any]) -> Iterator[str]:
    """Yield statements that read the parts from the data: one for each part or run of parts of constant length."""
    decoders = [(f"v{part_index}", decode) for part_index, (_, (_, decode)) in enumerate(struct_parts)]
    for is_constant, decoder_group in groupby(decoders, lambda decoder: decoder[1] in SPANS):
        decoder_run = list(decoder_group)
        if not is_constant:
            yield from (f"{value_name}, at = d{value_name[1:]}(data, at)" for value_name, _ in decoder_run)
            continue
        layout = Struct("<" + "".join(SPANS[decode].format for _, decode in decoder_run))
        unpack_name = "unpack_" + decoder_run[0][0]
        scope[unpack_name] = layout.unpack_from
        yield f"end = at + {layout.size}"
        # Checked first: on short input `unpack_from` raises `struct.error`, which no caller expects.
        yield "if end > len(data): raise DecodeError('end of input', len(data))"
        yield f"{', '.join(value_name for value_name, _ in decoder_run)}, = {unpack_name}(data, at)"
        yield "at = end"


def _value(part_index: int, struct_part: Part) -> str:
    """Return the expression for the value of an unpacked part."""
    constant_span = SPANS.get(struct_part[1][1])
    return f"v{part_index}" if constant_span is None else constant_span.decode.format(value=f"v{part_index}")
