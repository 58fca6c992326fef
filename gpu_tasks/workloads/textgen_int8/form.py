"""`textgen-int8` as programs see it: a text to continue, a temperature, one token a byte of the completion.

Always: prompt and completion fit the model's context, and the temperature its limits, or there is no request.
"""

from collections.abc import Mapping

from gpu_tasks.workloads.form import Option, RequestError, WorkloadForm, settings
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

TEMPERATURE = Option("temperature", "0.8", f"0 always takes the likeliest token; at most {TEMPERATURE_MAX // 1000}")


class TextGenerationForm(WorkloadForm):
    """See `WorkloadForm` for the methods."""

    name = "textgen-int8"
    workload_id = WORKLOAD_ID
    model_id = bytes.fromhex(MODEL_ID)
    cost_unit = "token"
    backends = ("numpy", "reference", "torch")
    options = (TEMPERATURE,)

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Continue `text` by at most `cost_max` bytes."""
        temperature = _milli(settings(self.options, options)[TEMPERATURE.name])
        prompt, context = text.encode(), context_length()
        if cost_max < 1:
            raise RequestError("a completion of no token is nothing to ask for: ask for 1 or more")
        if len(prompt) + cost_max > context:
            raise RequestError(
                f"the prompt has {len(prompt)} bytes: with {cost_max} tokens the model's context of {context} is "
                "exceeded; shorten it or ask for fewer tokens"
            )
        return encode_request(CompletionRequest(prompt, cost_max, temperature, seed))

    def show_request(self, request: bytes) -> str:
        """The prompt."""
        return REQUEST.decode(request).prompt.decode("utf-8", errors="replace")

    def show_output(self, output: bytes) -> str:
        """The completion."""
        return output.decode("utf-8", errors="replace")

    def cost_in(self, request: bytes) -> int:
        """The bytes of the prompt."""
        return len(REQUEST.decode(request).prompt)

    def cost_asked(self, request: bytes) -> int:
        """The tokens that it asks for."""
        return REQUEST.decode(request).max_tokens

    def output_bytes(self, request: bytes) -> int:
        """A token is a byte."""
        return REQUEST.decode(request).max_tokens

    def cost(self, output: bytes) -> int:
        """A token is a byte."""
        return len(output)

    def open(self, backend: str) -> Workload:
        """The published model on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.textgen_int8.service import open_published  # noqa: PLC0415  # NumPy, for executors only

        return open_published(backend)


def _milli(text: str) -> int:
    """Thousandths of a temperature, exactly: never by way of a float."""
    whole, _, decimals = text.partition(".")
    is_number = text.isascii() and whole.isdigit() and len(whole) <= 2 and (decimals or "0").isdigit()
    milli = int(whole) * 1000 + int(f"{decimals:0<3}") if is_number and len(decimals) <= 3 else None
    if milli is None or milli > TEMPERATURE_MAX:
        limit = TEMPERATURE_MAX // 1000
        raise RequestError(f"a temperature is 0 to {limit}, with at most three decimals, not {text!r}")
    return milli
