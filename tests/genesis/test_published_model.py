"""Genesis names the ids of the workload and its model, because a node does not import workloads."""

from genesis import presets
from gpu_tasks.workloads.textgen_int8 import request


def test_the_presets_name_the_published_model() -> None:
    assert request.WORKLOAD_ID == presets.TEXTGEN_WORKLOAD
    assert presets.TEXTGEN_MODEL.hex() == request.MODEL_ID
