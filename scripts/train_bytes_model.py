"""Train a small byte-level model of the Llama family: the float model behind the built-in `ogpu-bytes`.

The corpus is a folder of UTF-8 texts. The vocabulary has the 256 bytes and an end token, so the model needs no
tokenizer. The schedule depends on elapsed time, not steps, because the speed of a shared machine is unknown. So a
second run gives a model of similar quality, never the same bits. The result is a folder in Hugging Face's layout, which
`ogpu model import` turns into a model file. The script needs PyTorch and `safetensors`.

    python -m scripts.train_bytes_model --corpus FOLDER --out out/ogpu-bytes --minutes 30 --licence apache-2.0
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

END = 256
VOCABULARY = 257
HELD_OUT_ONE_IN = 32
ROPE_THETA = 10_000.0
EPSILON = 1e-5
SHORT_WINDOW = 256
LONG_FROM = 0.8
"""The share of the time from which windows have the whole context. Short ones train more steps."""
SAVED_EVERY = 3.0
"""Minutes."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. `key_heads` divides `heads`."""

    width: int = 192
    layers: int = 3
    heads: int = 6
    key_heads: int = 2
    head_width: int = 32
    hidden: int = 448
    context: int = 1024

    def config(self) -> dict[str, object]:
        """Return the `config.json`."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_width,
            "intermediate_size": self.hidden,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": self.context,
            "rms_norm_eps": EPSILON,
            "rope_theta": ROPE_THETA,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "eos_token_id": END,
            "torch_dtype": "float32",
        }


def read_corpus(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of the training and of the held-out texts, with the end token after each text.

    The hash of a text decides its side, so copies of one text are on one side.
    """
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for path in sorted(folder.glob("*.txt")):
        content = path.read_bytes()
        is_held_out = int.from_bytes(blake2b(content, digest_size=8).digest(), "little") % HELD_OUT_ONE_IN == 0
        tokens = np.frombuffer(content, dtype=np.uint8).astype(np.int16)
        sides[is_held_out].append(np.append(tokens, np.int16(END)))
    return np.concatenate(sides[0]), np.concatenate(sides[1])


class Norm(nn.Module):
    """RMSNorm with a gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return functional.rms_norm(x, (x.shape[-1],), self.weight, EPSILON)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions: pairs lie half a head apart."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        attended, keyed = shape.heads * shape.head_width, shape.key_heads * shape.head_width
        self.q_proj = nn.Linear(shape.width, attended, bias=False)
        self.k_proj = nn.Linear(shape.width, keyed, bias=False)
        self.v_proj = nn.Linear(shape.width, keyed, bias=False)
        self.o_proj = nn.Linear(attended, shape.width, bias=False)
        nn.init.zeros_(self.o_proj.weight)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Map float[batch, length, width] to the same shape."""
        s, (batch, length, _) = self.shape, x.shape
        q, k, v = (
            part(x).view(batch, length, -1, s.head_width).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        group = s.heads // s.key_heads
        k, v = rotated(k, turns).repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mixed = functional.scaled_dot_product_attention(rotated(q, turns), k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


def rotated(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the pairs of the last axis by the angles of their positions."""
    cosines, sines = turns
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).to(x.dtype)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)
        nn.init.zeros_(self.down_proj.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map float[..., width] to the same shape."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """Attention and MLP, each added to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.width)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.width)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Map float[batch, length, width] to the same shape."""
        x = x + self.self_attn(self.input_layernorm(x), turns)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Maps tokens int64[batch, length] to logits. Attributes have Hugging Face's names."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(VOCABULARY, shape.width),
            "layers": nn.ModuleList(Block(shape) for _ in range(shape.layers)),
            "norm": Norm(shape.width),
        })  # fmt: skip
        self.lm_head = nn.Linear(shape.width, VOCABULARY, bias=False)
        nn.init.normal_(self.model["embed_tokens"].weight, std=0.5)
        nn.init.zeros_(self.lm_head.weight)
        pairs = torch.arange(0, shape.head_width, 2) / shape.head_width
        angles = torch.arange(shape.context)[:, None] * ROPE_THETA**-pairs
        self.turns = (angles.cos(), angles.sin())

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits float[batch, length, VOCABULARY]."""
        cosines, sines = (table[: tokens.shape[1]] for table in self.turns)
        x = self.model["embed_tokens"](tokens)
        for block in self.model["layers"]:
            x = block(x, (cosines, sines))
        return self.lm_head(self.model["norm"](x))


def windows(tokens: np.ndarray, starts: np.ndarray, length: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets int64[len(starts), length]."""
    read = torch.from_numpy(tokens[starts[:, None] + np.arange(length + 1)].astype(np.int64))
    return read[:, :-1], read[:, 1:]


def bits_per_byte(model: Decoder, tokens: np.ndarray, most: int) -> float:
    """Return the mean over `most` windows of the context, which do not overlap."""
    context = model.shape.context
    starts = np.arange(0, len(tokens) - context - 1, context)
    starts = starts[:: max(1, len(starts) // most)]
    total = 0.0
    with torch.no_grad():
        for group in np.array_split(starts, max(1, len(starts) // 8)):
            inputs, targets = windows(tokens, group, context)
            logits = model(inputs).float()
            total += functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
    return total / (len(starts) * context) / math.log(2)


def rate(progress: float) -> float:
    """Return the share of the top learning rate at `progress` in [0, 1]: warm up, hold, fall to almost nothing."""
    return min(1.0, progress / 0.01 + 0.05) * min(1.0, (1.0 - progress) / 0.5 + 0.01)


def optimisers(model: Decoder) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices inside the blocks, and AdamW for embeddings, gains and head."""
    inside = list(model.model["layers"].parameters())
    matrices = [weight for weight in inside if weight.ndim == 2]
    others = [weight for weight in inside if weight.ndim == 1]
    others += [model.model["embed_tokens"].weight, model.model["norm"].weight, model.lm_head.weight]
    muon = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.02, momentum=0.95)
    adam = torch.optim.AdamW(others, lr=0.004, betas=(0.9, 0.98), weight_decay=0.01)
    for optimiser in (muon, adam):
        for group in optimiser.param_groups:
            group["top"] = group["lr"]
    return [muon, adam]


def save(folder: Path, model: Decoder, licence: str, facts: dict[str, float]) -> None:
    """Write the folder in Hugging Face's layout, and the facts of the training beside it."""
    (folder / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
    save_file(model.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(model.shape.config(), indent=1) + "\n")
    (folder / "training.json").write_text(json.dumps(facts) + "\n")


def train(args: argparse.Namespace) -> None:
    """Train for `args.minutes`, and save the model and its held-out figure every few minutes."""
    torch.manual_seed(1)
    draw = np.random.default_rng(1)
    tokens, held_out = read_corpus(args.corpus)
    model = Decoder(Shape())
    steps = optimisers(model)
    started, saved, step, smooth, read, elapsed = time.monotonic(), 0.0, 0, math.nan, 0, 0.0
    print(f"{sum(p.numel() for p in model.parameters())} weights, {len(tokens)} training tokens", flush=True)
    while (elapsed := (time.monotonic() - started) / 60) < args.minutes:
        progress = elapsed / args.minutes
        length = SHORT_WINDOW if progress < LONG_FROM else model.shape.context
        starts = draw.integers(0, len(tokens) - length - 1, max(1, args.tokens // length))
        inputs, targets = windows(tokens, starts, length)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(inputs)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        loss.backward()
        for optimiser in steps:
            for group in optimiser.param_groups:
                group["lr"] = group["top"] * rate(progress)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        bits = loss.item() / math.log(2)
        smooth = bits if math.isnan(smooth) else smooth + (bits - smooth) * 0.02
        step, read = step + 1, read + inputs.numel()
        if step % 50 == 0:
            print(f"{elapsed:6.1f} min step {step} bits {smooth:.3f} {read / (elapsed * 60):.0f} tokens/s", flush=True)
        if elapsed - saved > SAVED_EVERY:
            saved = elapsed
            report(args, model, held_out, {"step": step, "minutes": elapsed, "tokens": read}, most=16)
    report(args, model, held_out, {"step": step, "minutes": elapsed, "tokens": read}, most=64)


def report(args: argparse.Namespace, model: Decoder, held_out: np.ndarray, facts: dict[str, float], most: int) -> None:
    """Save the model, and print its quality on the held-out texts."""
    facts["held_out_bits_per_byte"] = bits_per_byte(model, held_out, most)
    save(args.out, model, args.licence, facts)
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="a folder of .txt files")
    parser.add_argument("--out", type=Path, default=Path("out/ogpu-bytes"))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--tokens", type=int, default=2048, help="tokens a step")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--licence", default="apache-2.0", help="of the weights, as Hugging Face writes it")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    train(args)


if __name__ == "__main__":
    main()
