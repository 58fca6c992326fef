"""The sizes of a model of `decoder-int8`: the section `config` of its file. It needs no NumPy.

Invariant: a model within these limits cannot make the arithmetic overflow, and a text of the whole context fits the
memory for keys and values.
"""

from typing import Annotated

from runtime.encoding.codec import U16, U32, Bounded, DecodeError, codec, struct

WIDTH_MAX = 1 << 13
"""Sums of this many squares of 15 bits, with eight more bits for the root, are below 2**52."""
LAYERS_MAX = 256
HEADS_MAX = 256
HEAD_WIDTH_MAX = 256
CONTEXT_MAX = 8192
"""Sums of this many shares of 16 bits times 7 bits, with fifteen more bits for the quotient, are below 2**52."""
VOCABULARY_MAX = 1 << 18
EPSILON_MAX = 1 << 30
END_TOKENS_MAX = 16
SUMMANDS_MAX = 1 << 14
"""Columns of a matrix: a sum of 2**14 products of 15 and 7 bits, times a mantissa of 16 bits, is below 2**53."""
READ_MAX = 256
"""Positions of one pass: enough for BLAS, and few enough for a CPU's caches."""
LOGIT_ROWS = 32
"""Positions whose logits are computed at once. Each takes several numbers of 8 bytes for every token."""
ARRAYS_AT_ONCE = 8
"""Arrays of float64 of one size that a pass holds at the same time, at most."""
CACHE_BYTES = 2 << 30
"""Keys and values of all texts that a worker decodes side by side."""


@struct
class DecoderShape:
    """Sizes of a model. `key_heads` divides `heads`."""

    width: U16
    layers: U16
    heads: U16
    key_heads: U16
    head_width: U16
    hidden: U16
    context: U32
    vocabulary: U32
    epsilon: U32
    """Of all norms, in units of 2**-40."""
    has_attention_bias: bool
    has_out_bias: bool
    has_head_norm: bool
    end_tokens: Annotated[tuple[U32, ...], Bounded(END_TOKENS_MAX)]
    """Tokens that end a text."""


SHAPE = codec(DecoderShape)


def decode_shape(encoded: bytes) -> DecoderShape:
    """Return the shape in a section. Raise DecodeError unless it is canonical and within the limits."""
    s = SHAPE.decode(encoded)
    limits = (
        (s.width, WIDTH_MAX), (s.layers, LAYERS_MAX), (s.heads, HEADS_MAX), (s.key_heads, s.heads),
        (s.head_width, HEAD_WIDTH_MAX), (s.hidden, SUMMANDS_MAX), (s.context, CONTEXT_MAX),
        (s.vocabulary, VOCABULARY_MAX), (s.heads * s.head_width, SUMMANDS_MAX),
    )  # fmt: skip
    if any(not 1 <= size <= limit for size, limit in limits) or s.epsilon > EPSILON_MAX:
        raise DecodeError("a model size out of range")
    if s.context * cache_bytes(s) > CACHE_BYTES:
        raise DecodeError("a context whose keys and values exceed the memory for them")
    if s.heads % s.key_heads or s.head_width % 2 or any(token >= s.vocabulary for token in s.end_tokens):
        raise DecodeError("a model shape that does not fit together")
    return s


def cache_bytes(shape: DecoderShape) -> int:
    """Return the bytes of keys and values of one position: int8 integers, and float64 scales of each head."""
    return shape.layers * shape.key_heads * 2 * (shape.head_width + 16)


def pass_bytes(shape: DecoderShape) -> int:
    """Return the memory of a pass beside the model and the cache: activations, or the logits behind them."""
    row = max((shape.heads + 2 * shape.key_heads) * shape.head_width, 2 * shape.hidden, shape.width)
    return 8 * ARRAYS_AT_ONCE * (READ_MAX * row + LOGIT_ROWS * shape.vocabulary)
