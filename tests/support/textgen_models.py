"""Small integer models drawn from a seed: untrained, with every operation in use."""

import numpy as np

from gpu_tasks.workloads.textgen_int8.model import VOCABULARY, Model, ModelShape, TransformerLayer

SMALL = ModelShape(width=32, layers=2, heads=2, hidden=64, context=48)


def small_model(seed: int = 1, shape: ModelShape = SMALL) -> Model:
    """Return a model with weights over their whole range.

    Its multipliers keep activations in theirs, some saturated.
    """
    draw = np.random.default_rng(seed)
    width, hidden = shape.width, shape.hidden

    def weights(*size: int) -> np.ndarray:
        return draw.integers(-63, 64, size, dtype=np.int8)

    def multipliers(count: int, middle: int) -> np.ndarray:
        return draw.integers(middle // 2, 2 * middle, count, dtype=np.int32)

    layers = tuple(
        TransformerLayer(
            gains=np.array([200, 300], dtype=np.int32),
            qkv=weights(3 * width, width),
            qkv_multipliers=multipliers(3 * width, 1 << 17),
            score_multipliers=multipliers(shape.heads, 1 << 18),
            mix_multipliers=multipliers(shape.heads, 1 << 11),
            out=weights(width, width),
            out_multipliers=multipliers(width, 1 << 19),
            up=weights(hidden, width),
            up_multipliers=multipliers(hidden, 1 << 21),
            gelu=np.clip(np.arange(-2048, 2048) >> 4, -9, 127).astype(np.int8),
            down=weights(width, hidden),
            down_multipliers=multipliers(width, 1 << 19),
        )
        for _ in range(shape.layers)
    )
    return Model(
        shape=shape,
        tokens=draw.integers(-2000, 2001, (VOCABULARY, width), dtype=np.int16),
        positions=draw.integers(-500, 501, (shape.context, width), dtype=np.int16),
        layers=layers,
        final_gain=np.array([300], dtype=np.int32),
        head=weights(VOCABULARY, width),
        head_multipliers=multipliers(VOCABULARY, 1 << 21),
    )
