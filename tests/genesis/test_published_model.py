"""Genesis writes the ids of the workload and its model down, because a node does not import workloads."""

from genesis import presets
from gpu_tasks.workloads.textgen_int8 import published


def test_the_presets_name_the_published_model() -> None:
    assert published.WORKLOAD_ID == presets.TEXTGEN_WORKLOAD
    assert presets.TEXTGEN_MODEL.hex() == published.MODEL_ID
