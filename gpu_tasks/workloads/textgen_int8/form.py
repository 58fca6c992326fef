"""`textgen-int8` as programs see it: a text to continue, a temperature, one token a byte of the completion.

Always: prompt and completion fit the model's context, and the temperature its limits, or there is no request.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from gpu_tasks.workloads.form import Option, RequestError, settings
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


class TextGenerationForm:
    """Implements `WorkloadForm` (see there for the methods)."""

    name = "textgen-int8"
    workload_id = WORKLOAD_ID
    model_id = bytes.fromhex(MODEL_ID)
    cost_unit = "token"
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

    def cost(self, output: bytes) -> int:
        """A token is a byte."""
        return len(output)

    def open(self, backend: str) -> Workload:
        """The published model on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.textgen_int8.service import open_published  # noqa: PLC0415  # NumPy, for executors only

        return open_published(backend)


def _milli(text: str) -> int:
    """Thousandths of a temperature, exactly."""
    try:
        value = Decimal(text) * 1000
    except InvalidOperation:
        raise RequestError(f"the temperature {text!r} is no number") from None
    # NaN compares with nothing, so it is caught as no whole number of thousandths
    if not value.is_finite() or value != value.to_integral_value():
        raise RequestError(f"the temperature {text!r} has more than three decimals")
    if not 0 <= value <= TEMPERATURE_MAX:
        raise RequestError(f"a temperature is 0 to {TEMPERATURE_MAX // 1000}, not {text}")
    return int(value)
