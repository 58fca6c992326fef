"""The outliers that the benchmark plants leave the function of a model the same."""

from pathlib import Path

import numpy as np

from benchmarks.decoder_quality import with_outliers
from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.workloads.decoder_int8.float_decoder import FloatDecoder
from tiny_models import LLAMA, random_tensors, write_folder


def test_planted_outliers_leave_the_function_the_same(tmp_path: Path) -> None:
    source = open_source(write_folder(tmp_path / "tiny", LLAMA, random_tensors(LLAMA)))
    planted = with_outliers(source)
    changed = [name for name in source.tensors if not np.array_equal(source.tensors[name], planted.tensors[name])]
    assert len(changed) == 2 * 9
    found, expected = (FloatDecoder(model).log_probabilities(range(40)) for model in (planted, source))
    np.testing.assert_allclose(found, expected, atol=1e-3)
