"""Genesis names the ids of the built-in model and its workload, because a node does not import workloads."""

from genesis import presets
from gpu_tasks.workloads import model_forms


def test_the_presets_name_the_built_in_model() -> None:
    form = model_forms.form_of(presets.TEXT_WORKLOAD, presets.TEXT_MODEL)
    assert form is not None
    assert form.model_id == presets.TEXT_MODEL
    assert form.check_ppm == presets.CHECK_PPM
