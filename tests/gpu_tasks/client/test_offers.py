"""What may be bought: only what this program can tell a right answer of."""

from dataclasses import replace

import pytest

from gpu_tasks.client.offers import ServiceError, form_of
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.workloads.registry import FORMS

OWNER = b"o" * 32


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_service_with_another_model_than_the_published_one_is_not_bought(form: object) -> None:
    known = next(each for each in FORMS if each is form)
    terms = ServiceTerms(b"cheap", known.workload_id, known.model_id, 1, 2, 1, 30, 64)
    assert form_of(3, Service(OWNER, terms, 0)) is known
    foreign = Service(OWNER, replace(terms, model=b"?" * 32), 0)
    with pytest.raises(ServiceError, match=r"service 3 computes .* with the model 0x3f3f3f3f3f3f3f3f"):
        form_of(3, foreign)
