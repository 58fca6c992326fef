"""Recompute every token of a completion with one prefill, instead of one pass for each."""

from gpu_tasks.workloads.textgen_int8.generate import input_tokens
from gpu_tasks.workloads.textgen_int8.model import BOUNDARY
from gpu_tasks.workloads.textgen_int8.request import CompletionRequest
from gpu_tasks.workloads.textgen_int8.sampling import next_token
from gpu_tasks.workloads.textgen_int8.transformer import Loaded, empty_cache, forward
from gpu_tasks.workloads.workload import OutputCheck


def verify_output(model: Loaded, request: CompletionRequest, output: bytes) -> OutputCheck:
    """Whether `output` is, bit for bit, what `generate` gives.

    Exact and complete: a completion shorter than asked must be one that the model ended.
    `recomputed` counts the tokens looked at, `first_wrong` is the first that differs.
    """
    if len(output) > request.max_tokens:
        return OutputCheck(valid=False, recomputed=0, first_wrong=request.max_tokens)
    claimed = list(output)
    if len(output) < request.max_tokens:
        claimed.append(BOUNDARY)
    text = request.prompt + output
    read = text if len(output) < request.max_tokens else text[:-1]
    logits = forward(model, input_tokens(read), empty_cache(model))[0]
    start = len(request.prompt)
    for index, token in enumerate(claimed):
        right = next_token(logits[start + index], request.temperature_milli, request.seed, index)
        if token != right:
            return OutputCheck(valid=False, recomputed=index + 1, first_wrong=index)
    return OutputCheck(valid=True, recomputed=len(claimed), first_wrong=None)
