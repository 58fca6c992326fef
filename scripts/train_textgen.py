"""Train the float model behind the workload `textgen-int8` on CPython's own library.

The model is a byte-level GPT without biases: learned positions, RMS norm without gain, GELU. Every window starts with
the boundary token, so a completion may start anywhere in a text. The schedule depends on elapsed time, not steps,
because the speed of a shared machine is unknown. So a second run gives a model of similar quality, never the same bits.
The published model, with a model id, consists of the integers that `quantise_textgen.py` makes from a checkpoint of
this script.

    python -m scripts.train_textgen --source /usr/lib/python3.12 --out out/textgen --minutes 60
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BOUNDARY = 256
VOCABULARY = 257
LARGEST_FILE = 400_000
HELD_OUT_ONE_IN = 32
SKIPPED_FOLDERS = frozenset({"site-packages", "encodings", "__pycache__"})


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. `heads` must divide `width`."""

    width: int = 256
    layers: int = 4
    heads: int = 4
    hidden: int = 1024
    context: int = 256


def read_corpus(source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of the training and of the held-out files, with a boundary after each file.

    The hash of a file's content decides its side, so copies of one file are on one side.
    """
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    seen: set[bytes] = set()
    for path in sorted(source.rglob("*.py")):
        content = path.read_bytes()
        digest = blake2b(content, digest_size=8).digest()
        folders = set(path.relative_to(source).parts)
        if folders & SKIPPED_FOLDERS or digest in seen or not 0 < len(content) <= LARGEST_FILE:
            continue
        seen.add(digest)
        held_out = int.from_bytes(digest, "little") % HELD_OUT_ONE_IN == 0
        tokens = np.frombuffer(content, dtype=np.uint8).astype(np.int16)
        sides[held_out].append(np.append(tokens, np.int16(BOUNDARY)))
    return np.concatenate(sides[0]), np.concatenate(sides[1])


def norm(x: Tensor) -> Tensor:
    """Return the RMS norm over the last axis, without gain."""
    return functional.rms_norm(x, (x.shape[-1],), eps=1e-6)


class Block(nn.Module):
    """Attention and MLP, each added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map float[batch, length, width] to the same shape."""
        batch, length, width = x.shape
        split = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(norm(x)).view(split).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(norm(x))))


class Gpt(nn.Module):
    """Maps tokens int64[batch, length] to logits float[batch, length, VOCABULARY]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(VOCABULARY, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.head = nn.Linear(shape.width, VOCABULARY, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.5)
        nn.init.normal_(self.positions.weight, std=0.1)
        nn.init.zeros_(self.head.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(norm(x))


def windows(tokens: np.ndarray, starts: np.ndarray, context: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets int64[len(starts), context]. An input begins with the boundary."""
    targets = tokens[starts[:, None] + np.arange(context)].astype(np.int64)
    inputs = np.roll(targets, 1, axis=1)
    inputs[:, 0] = BOUNDARY
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def bits_per_byte(model: Gpt, tokens: np.ndarray, most: int) -> float:
    """Return the mean over the first `most` windows, which do not overlap. Early tokens have short contexts."""
    context = model.shape.context
    starts = np.arange(0, len(tokens) - context, context)[:most]
    total = 0.0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for group in np.array_split(starts, max(1, len(starts) // 32)):
            inputs, targets = windows(tokens, group, context)
            logits = model(inputs).float()
            total += functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
    return total / (len(starts) * context) / math.log(2)


def rate(progress: float) -> float:
    """Return the share of the top learning rate at `progress` in [0, 1]: warm up, hold, fall to almost nothing."""
    return min(1.0, progress / 0.01 + 0.05) * min(1.0, (1.0 - progress) / 0.5 + 0.01)


def optimisers(model: Gpt) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices inside the blocks, and AdamW for embeddings and head."""
    matrices = list(model.blocks.parameters())
    others = [model.tokens.weight, model.positions.weight, model.head.weight]
    muon = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.02, momentum=0.95)
    adam = torch.optim.AdamW(others, lr=0.004, betas=(0.9, 0.98), weight_decay=0.01)
    for optimiser in (muon, adam):
        for group in optimiser.param_groups:
            group["top"] = group["lr"]
    return [muon, adam]


def save(path: Path, model: Gpt, state: dict[str, float]) -> None:
    """Write atomically, so that an export may read at any time."""
    partial = path.with_suffix(".partial")
    torch.save({"shape": asdict(model.shape), "model": model.state_dict(), "state": state}, partial)
    partial.replace(path)


def train(args: argparse.Namespace) -> None:
    """Train for `args.minutes`, with a checkpoint and a held-out figure every few minutes."""
    torch.manual_seed(1)
    draw = np.random.default_rng(1)
    tokens, held_out = read_corpus(args.source)
    model = Gpt(Shape())
    steps = optimisers(model)
    started, saved, step, smooth = time.monotonic(), 0.0, 0, math.nan
    print(f"{len(tokens)} training, {len(held_out)} held-out tokens", flush=True)
    while (elapsed := (time.monotonic() - started) / 60) < args.minutes:
        share = rate(elapsed / args.minutes)
        starts = draw.integers(0, len(tokens) - model.shape.context, args.batch)
        inputs, targets = windows(tokens, starts, model.shape.context)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        loss.backward()
        for optimiser in steps:
            for group in optimiser.param_groups:
                group["lr"] = group["top"] * share
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        bits = loss.item() / math.log(2)
        smooth = bits if math.isnan(smooth) else smooth + (bits - smooth) * 0.02
        step += 1
        if step % 50 == 0:
            speed = step * args.batch * model.shape.context / (elapsed * 60 + 1e-9)
            print(f"{elapsed:6.1f} min step {step} bits {smooth:.3f} {speed:.0f} tokens/s", flush=True)
        if elapsed - saved > 3:
            saved = elapsed
            report(args.out, model, held_out, step, elapsed)
    report(args.out, model, held_out, step, elapsed, most=1 << 30)


def report(out: Path, model: Gpt, held_out: np.ndarray, step: int, minutes: float, most: int = 128) -> None:
    """Save a checkpoint, and print its quality on the held-out files."""
    bits = bits_per_byte(model, held_out, most)
    state = {"step": step, "minutes": minutes, "held_out_bits_per_byte": bits}
    save(out / "checkpoint.pt", model, state)
    print(json.dumps(state), flush=True)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="a CPython library folder")
    parser.add_argument("--out", type=Path, default=Path("out/textgen"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--batch", type=int, default=32, help="windows a step")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    train(args)


if __name__ == "__main__":
    main()
