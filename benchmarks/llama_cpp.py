"""llama.cpp on one thread, through the PyPI package `xllamacpp`: what `decoder-int8` is compared with.

The package is optional and no dependency of ours. CPU time is that of this process with all threads.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

LEFT_OUT = "The figures are of decoder-int8 alone: {reason}. For llama.cpp's, run `pip install xllamacpp` and set GGUF."
TOP = 5


class LlamaCpp:
    """A GGUF model that reads `parallel` texts of `context` tokens side by side."""

    def __init__(self, path: Path, parallel: int, context: int) -> None:
        """Raise ImportError without the package."""
        engine: Any = import_module("xllamacpp")
        settings = engine.CommonParams()
        settings.model.path = str(path)
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.n_ctx, settings.n_parallel, settings.n_gpu_layers = parallel * context, parallel, 0
        settings.n_batch, settings.n_ubatch, settings.cache_ram_mib, settings.verbosity = 2048, 512, 0, -1
        self._server = engine.Server(settings)

    def prefill(self, tokens: Sequence[int]) -> float:
        """Return the CPU seconds to read a prompt."""
        start = time.process_time()
        self._answer(tokens, 1)
        return time.process_time() - start

    def generation(self, prompts: Sequence[Sequence[int]], count: int) -> float:
        """Return the CPU seconds to continue all prompts at once, each by `count` tokens."""
        start = time.process_time()
        with ThreadPoolExecutor(len(prompts)) as threads:
            list(threads.map(lambda prompt: self._answer(prompt, count), prompts))
        return time.process_time() - start

    def log_probabilities(self, tokens: Sequence[int]) -> dict[int, float]:
        """Return the natural logarithms of the likeliest next tokens' probabilities, by token."""
        (first,) = self._answer(tokens, 1, n_probs=TOP)["choices"][0]["logprobs"]["content"]
        return {int(found["id"]): float(found["logprob"]) for found in first["top_logprobs"]}

    def _answer(self, tokens: Sequence[int], count: int, **more: int) -> dict[str, Any]:
        answer = self._server.handle_completions({
            "prompt": list(tokens), "n_predict": count, "temperature": 0, "cache_prompt": False,
            "ignore_eos": True, **more,
        })  # fmt: skip
        found: dict[str, Any] = answer if isinstance(answer, dict) else json.loads(answer)
        return found
