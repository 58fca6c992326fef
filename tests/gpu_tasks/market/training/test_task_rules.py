"""What a task goes by, of the numbers of its chain."""

import pytest

from gpu_tasks.market.training.numbers import task_rules
from gpu_tasks.market.training.training_market import TrainingMarket


@pytest.mark.parametrize(("rate", "trace_rate"), [(50_000, 250_000), (1_000_000, 5_000), (1_000, 1_000_000)])
def test_what_a_lie_in_one_segment_costs_is_reckoned_by_the_chance_to_find_it(rate: int, trace_rate: int) -> None:
    """An audit of a trace looks at four parts of twenty; without one it looks at everything."""
    numbers = {name: parameter.default for name, parameter in TrainingMarket.parameters.items()}
    numbers |= {
        "audit_rate_ppm": rate,
        "trace_audit_ppm": trace_rate,
        "judge_fee_ppm": 400_000,
        "trace_fee_ppm": 80_000,
    }
    whole, traced = (task_rules(numbers.__getitem__, has_trace=has_trace) for has_trace in (False, True))
    assert (whole.audit_rate_ppm, whole.judge_fee_ppm) == (rate, 400_000)
    assert (traced.audit_rate_ppm, traced.judge_fee_ppm) == (trace_rate, 80_000)
    for rules, share in ((whole, 1.0), (traced, 0.2)):
        assert rules.found_ppm == pytest.approx(
            1_000_000 * share * (1 - (1 - rules.audit_rate_ppm / 4_000_000) ** 4), abs=1
        )
