r"""Turn a checkpoint of `train_textgen.py` into the integer model file, and measure the loss.

Quantisation is post-training: the float model runs over some training windows. Every activation gets the scale with the
least mean square error there, and so does every row of weights. The script needs PyTorch, and its result does not. It
prints the model id, and the bits per byte of both models on the same held-out windows.

    python -m scripts.quantise_textgen --source /usr/lib/python3.12 \
      --checkpoint out/textgen/checkpoint.pt --model out/textgen/model.bin
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gpu_tasks.workloads.textgen_int8 import transformer
from gpu_tasks.workloads.textgen_int8.integer_ops import (
    ACTIVATION_MAX,
    GELU_ENTRIES,
    MULTIPLIER_BITS,
    PROBABILITY_BITS,
    RESIDUAL_MAX,
    WEIGHT_MAX,
)
from gpu_tasks.workloads.textgen_int8.model import Model, ModelShape, TransformerLayer, encode_model, model_id
from gpu_tasks.workloads.torch_backends import TorchBackend
from scripts.train_textgen import Block, Gpt, norm, read_corpus, windows
from scripts.train_textgen import Shape as FloatShape

CALIBRATION_WINDOWS = 48
CLIPS = [1.0 - 0.03 * i for i in range(24)]
ONE = 1 << MULTIPLIER_BITS
STEPS_PER_NAT = 64
LOGITS_PER_NAT = 1024


def best_scale(values: Tensor, levels: int) -> float:
    """Return the value of one level that minimises the error of rounding to +-`levels`, over `CLIPS`."""
    values = values.flatten().float()
    # A sample of the values bounds the time.
    values = values[:: max(1, values.numel() // 400_000)]
    # Values that are all zero must not give a scale of zero.
    top = float(values.abs().max()) + 1e-9

    def loss(clip: float) -> float:
        scale = top * clip / levels
        rounded = (values / scale).round().clamp(-levels, levels) * scale
        return float((rounded - values).square().mean())

    return top * min(CLIPS, key=loss) / levels


def rows(weight: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 weights, and the float64 scale of each row."""
    scales = np.array([best_scale(row, WEIGHT_MAX) for row in weight])
    levels = np.rint(weight.double().numpy() / scales[:, None])
    return np.clip(levels, -WEIGHT_MAX, WEIGHT_MAX).astype(np.int8), scales


def fractions(values: np.ndarray | float) -> np.ndarray:
    """Return multipliers in units of 2**-24."""
    units = np.rint(np.atleast_1d(values) * ONE)
    clipped: np.ndarray = np.clip(units, 0, (1 << 31) - 1).astype(np.int32)
    return clipped


class Calibrator:
    """Runs the float model block by block over `tokens`, and quantises each block."""

    def __init__(self, model: Gpt, tokens: Tensor) -> None:
        self.model, self.shape = model, model.shape
        self.stream = model.tokens(tokens) + model.positions.weight[: tokens.shape[1]]
        self.unit = self._residual_unit()

    def _residual_unit(self) -> int:
        """Return the levels per 1.0 of the residual stream: a power of two with room for 8 times more."""
        top, x = 0.0, self.stream
        for block in self.model.blocks:
            x = block(x)
            top = max(top, float(x.abs().max()))
        tables = max(float(p.weight.abs().max()) for p in (self.model.tokens, self.model.positions))
        unit = min(RESIDUAL_MAX / (8 * top), 32767 / tables, 4096.0)
        return 1 << int(math.log2(unit))

    def normed(self) -> tuple[Tensor, int, float]:
        """Return the normed stream, the integer gain, and the value of one level."""
        x = norm(self.stream)
        root = math.sqrt(self.shape.width)
        gain = round(root / best_scale(x, ACTIVATION_MAX))
        return x, gain, root / gain

    def layer(self, block: Block) -> TransformerLayer:
        """Quantise one block and advance the stream through it."""
        s = self.shape
        depth = s.width // s.heads
        x, attention_gain, x_scale = self.normed()
        qkv, qkv_rows = rows(block.qkv.weight)
        q, k, v = block.qkv(x).view(*x.shape[:2], 3, s.heads, depth).permute(2, 0, 3, 1, 4)
        levels = np.array([[best_scale(part[:, h], ACTIVATION_MAX) for h in range(s.heads)] for part in (q, k, v)])
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        mixed_scale = best_scale(mixed, ACTIVATION_MAX)
        out, out_rows = rows(block.out.weight)
        self.stream = self.stream + block.out(mixed)
        mlp_gain, up, up_by, gelu, gelu_scale = self.mlp_first_half(block)
        down, down_rows = rows(block.down.weight)
        score = levels[0] * levels[1] / math.sqrt(depth) * STEPS_PER_NAT
        return TransformerLayer(
            gains=np.array([attention_gain, mlp_gain], dtype=np.int32),
            qkv=qkv,
            qkv_multipliers=fractions(qkv_rows * x_scale / levels.reshape(-1).repeat(depth)),
            score_multipliers=fractions(score),
            mix_multipliers=fractions(levels[2] / mixed_scale / (1 << PROBABILITY_BITS)),
            out=out,
            out_multipliers=fractions(out_rows * mixed_scale * self.unit),
            up=up,
            up_multipliers=up_by,
            gelu=gelu,
            down=down,
            down_multipliers=fractions(down_rows * gelu_scale * self.unit),
        )

    def mlp_first_half(self, block: Block) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, float]:
        """Return gain, `up` with multipliers, GELU table and its scale. Advance through the MLP."""
        x, gain, x_scale = self.normed()
        up, up_rows = rows(block.up.weight)
        before = block.up(x)
        after = functional.gelu(before)
        half = GELU_ENTRIES // 2
        step = max(float(before.max()) * 1.1, 6.0) / half
        scale = best_scale(after, ACTIVATION_MAX)
        table = functional.gelu(torch.arange(-half, half, dtype=torch.float64) * step) / scale
        table = table.round().clamp(-ACTIVATION_MAX, ACTIVATION_MAX).to(torch.int8)
        self.stream = self.stream + block.down(after)
        return gain, up, fractions(up_rows * x_scale / step), table.numpy(), scale


def quantise(model: Gpt, tokens: Tensor) -> Model:
    """Return the integer model. The scales are chosen on `tokens`, int64[windows, context]."""
    s = model.shape
    run = Calibrator(model, tokens)
    layers = tuple(run.layer(block) for block in model.blocks)
    _, gain, x_scale = run.normed()
    head, head_rows = rows(model.head.weight)
    table = lambda p: np.rint(p.weight.double().numpy() * run.unit).astype(np.int16)  # noqa: E731
    return Model(
        shape=ModelShape(s.width, s.layers, s.heads, s.hidden, s.context),
        tokens=table(model.tokens),
        positions=table(model.positions),
        layers=layers,
        final_gain=np.array([gain], dtype=np.int32),
        head=head,
        head_multipliers=fractions(head_rows * x_scale * LOGITS_PER_NAT),
    )


def compare(model: Gpt, integer: Model, tokens: np.ndarray, count: int) -> dict[str, float]:
    """Return the bits per byte of both models, and how often their likeliest bytes agree."""
    context = model.shape.context
    loaded = transformer.load(TorchBackend(), integer)
    starts = np.arange(0, len(tokens) - context, context)
    starts = starts[:: max(1, len(starts) // count)]
    sums = np.zeros(3)
    for group in np.array_split(starts, max(1, len(starts) // 8)):
        inputs, targets = windows(tokens, group, context)
        logits = model(inputs)
        cache = transformer.empty_cache(loaded, len(group))
        whole = torch.from_numpy(transformer.forward(loaded, inputs.numpy(), cache))
        for i, scores in enumerate((logits, whole / LOGITS_PER_NAT)):
            flat = scores.flatten(0, 1).double()
            sums[i] += functional.cross_entropy(flat, targets.flatten(), reduction="sum").item()
        sums[2] += (logits.argmax(-1) == whole.argmax(-1)).sum().item()
    sums /= len(starts) * context
    return {
        "windows": len(starts),
        "float_bits_per_byte": round(sums[0] / math.log(2), 4),
        "integer_bits_per_byte": round(sums[1] / math.log(2), 4),
        "argmax_agreement": round(sums[2], 4),
    }


def main() -> None:
    """Load, quantise, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="the file to write")
    parser.add_argument("--windows", type=int, default=256, help="held-out windows to compare on")
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.set_grad_enabled(False)
    stored = torch.load(args.checkpoint, weights_only=True)
    model = Gpt(FloatShape(**stored["shape"]))
    model.load_state_dict(stored["model"])
    tokens, held_out = read_corpus(args.source)
    starts = np.random.default_rng(2).integers(0, len(tokens) - 256, CALIBRATION_WINDOWS)
    integer = quantise(model, windows(tokens, starts, model.shape.context)[0])
    data = encode_model(integer)
    args.model.write_bytes(data)
    facts = {"model_id": model_id(data).hex(), "bytes": len(data), "training": stored["state"]}
    print(json.dumps(facts | compare(model, integer, held_out, args.windows)))


if __name__ == "__main__":
    main()
