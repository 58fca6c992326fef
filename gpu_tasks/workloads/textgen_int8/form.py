"""`textgen-int8` as programs see it: a text to continue, a temperature, one token for each byte of the completion.

Invariant: a request's prompt and completion fit the model's context, and its temperature is within its limits.
"""

from collections.abc import Mapping

from gpu_tasks.workloads.form import Option, RequestError, WorkloadForm, settings, thousandths
from gpu_tasks.workloads.textgen_int8.request import (
    MODEL_ID,
    REQUEST,
    TEMPERATURE_MAX,
    WORKLOAD_ID,
    CompletionRequest,
    context_length,
    encode_request,
)
from gpu_tasks.workloads.workload import Workload

TEMPERATURE = Option("temperature", "0.8", f"0 always takes the most likely token; at most {TEMPERATURE_MAX // 1000}")


class TextGenerationForm(WorkloadForm):
    """`textgen-int8` for programs. See `WorkloadForm` for the methods."""

    name = "textgen-int8"
    workload_id = WORKLOAD_ID
    model_id = bytes.fromhex(MODEL_ID)
    cost_unit = "token"
    backends = ("numpy", "reference", "torch")
    options = (TEMPERATURE,)

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode the request to continue `input_text` by at most `cost_max` bytes."""
        temperature = thousandths("a temperature", settings(self.options, options)[TEMPERATURE.name], TEMPERATURE_MAX)
        prompt, context = text.encode(), context_length()
        if cost_max < 1:
            raise RequestError("the completion has no tokens; ask for at least 1")
        if len(prompt) + cost_max > context:
            raise RequestError(
                f"the prompt has {len(prompt)} bytes, which with {cost_max} tokens "
                f"exceed the context of {context}; "
                "shorten it or ask for fewer tokens"
            )
        return encode_request(CompletionRequest(prompt, cost_max, temperature, seed))

    def show_request(self, encoded_request: bytes) -> str:
        """Return the prompt."""
        return REQUEST.decode(encoded_request).prompt.decode("utf-8", errors="replace")

    def show_output(self, encoded_output: bytes) -> str:
        """Return the completion."""
        return encoded_output.decode("utf-8", errors="replace")

    def cost_in(self, encoded_request: bytes) -> int:
        """Return the number of bytes in the prompt."""
        return len(REQUEST.decode(encoded_request).prompt)

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the greatest number of tokens in the completion."""
        return REQUEST.decode(encoded_request).max_tokens

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the greatest number of tokens, one byte each."""
        return REQUEST.decode(encoded_request).max_tokens

    def cost(self, encoded_output: bytes) -> int:
        """Return the number of bytes, one token each."""
        return len(encoded_output)

    def open(self, backend_name: str) -> Workload:
        """Open the published model on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.textgen_int8.service import open_published  # noqa: PLC0415  # NumPy, for executors only

        return open_published(backend_name)
