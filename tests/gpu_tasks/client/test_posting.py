from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from gpu_tasks.batches.requests import REQUEST_BYTES_MAX, decode_requests
from gpu_tasks.client.units.line_reader import LineTerms
from gpu_tasks.client.units.posting import (
    PROMPT_FILE_BYTES_MAX,
    PROMPTS_MAX,
    PostError,
    Prompt,
    Wish,
    check_terms,
    parts_of,
    read_prompts,
    units_of,
)
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.workloads.form import Option, RequestError, WorkloadForm

WISH = Wish(service=3, cost_max=16, options={}, racers=2, rate_max=10_000_000)
SERVICE = Service(
    bytes(32), ServiceTerms(b"any", bytes(32), bytes(32), 1_000_000, 50_000_000, ramp=10, lease=30, tokens_max=64), 0
)


class Shouting:
    """A form that no program has heard of: a line in capitals, nothing above 20 letters."""

    cost_unit = "letter"
    is_stepwise = False
    options = (Option("mark", "!", "what follows the text"),)

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        if len(text) > cost_max:
            raise RequestError(f"{len(text)} letters are more than {cost_max}")
        return text.upper().encode() + options.get("mark", "!").encode() + seed

    def cost_in(self, request: bytes) -> int:
        return len(request) - 33

    def cost_asked(self, request: bytes) -> int:
        return 2 * (len(request) - 33)


FORM = cast("WorkloadForm", Shouting())
LINES = LineTerms(FORM, (), 64, 64, {}, bytes(32))


def test_one_prompt_a_line() -> None:
    data = "def f():\n\n   \nclass A:\\n    x = 1\r\nprint('ü')\n".encode()
    assert read_prompts(data, LINES)[0] == [
        Prompt(1, "def f():"),
        Prompt(4, "class A:\n    x = 1"),
        Prompt(5, "print('ü')"),
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no request"),
        (b"\n \n", "no request"),
        (b"ok\n\xff", "line 2: the line is not UTF-8"),
        (b"x\n" * (PROMPTS_MAX + 1), "4,097 prompts: give 1 to 4,096"),
        (b"x" * (PROMPT_FILE_BYTES_MAX + 1), "split it"),
    ],
)
def test_files_that_are_none(data: bytes, why: str) -> None:
    with pytest.raises(PostError, match=why):
        read_prompts(data, LINES)


def test_requests_are_the_forms_with_a_seed_each() -> None:
    _, found = read_prompts(b"a\na", replace(LINES, options={"mark": "?"}))
    assert [request[:2] for request in found] == [b"A?"] * 2
    assert [len(request) for request in found] == [2 + 32] * 2
    assert found[0] != found[1]


def test_a_line_that_is_no_request_is_named_as_the_file_has_it() -> None:
    with pytest.raises(PostError, match="line 3: 65 letters"):
        read_prompts(b"ok\n\n" + b"x" * 65, LINES)


def test_a_request_alone_may_be_larger_than_one_of_a_batch() -> None:
    data = b"x" * (REQUEST_BYTES_MAX + 1)
    terms = replace(LINES, cost_default=len(data))
    with pytest.raises(PostError):
        read_prompts(data, terms)
    assert len(read_prompts(data, replace(terms, bytes_max=2 * len(data)))[1]) == 1


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rate_max": 999_999}, r"--price is 0\.01 to 0\.5 oGPU per thousand letters for service 3, not 0\.00999999"),
        ({"rate_max": 50_000_001}, r"not 0\.50000001"),
        ({"cost_max": 0}, "--max-tokens is 1 to 64 for service 3, in letters, not 0"),
        ({"cost_max": 65}, "--max-tokens is 1 to 64"),
        ({"options": {"colour": "red"}}, "--set: there is no option 'colour' here; there are: mark"),
    ],
)
def test_what_the_service_does_not_sell_is_said_in_the_options_own_terms(changed: dict[str, object], why: str) -> None:
    with pytest.raises(PostError, match=why):
        check_terms(SERVICE, FORM, replace(WISH, **changed))  # type: ignore[arg-type]  # by name


def test_what_it_sells_passes() -> None:
    check_terms(SERVICE, FORM, replace(WISH, options={"mark": "?"}))
    check_terms(SERVICE, FORM, replace(WISH, rate_max=1_000_000, cost_max=64))


def test_a_unit_of_each_request_is_priced_by_its_tokens() -> None:
    sold = replace(SERVICE.terms, input_share=500_000)
    prompts, requests = read_prompts(b"abc\nde\n\nf", LINES)
    units, named = units_of(prompts, requests, FORM, WISH, sold)
    assert [(unit.count, unit.tokens_in, unit.tokens_max) for unit in units] == [(1, 3, 6), (1, 2, 4), (1, 1, 2)]
    assert [unit.request for unit in units] == requests
    assert [unit.price_max for unit in units] == [75_000, 50_000, 25_000]
    assert named == prompts


def test_a_batch_holds_its_requests_in_order_and_the_last_may_be_smaller() -> None:
    prompts, requests = read_prompts(b"abc\nde\n\nf", LINES)
    units, named = units_of(prompts, requests, FORM, replace(WISH, batch=2), SERVICE.terms)
    assert [(unit.count, unit.tokens_in, unit.tokens_max) for unit in units] == [(2, 5, 10), (1, 1, 2)]
    assert decode_requests(units[0].request) == tuple(requests[:2])
    assert units[1].request == requests[2]
    assert [prompt.text for prompt in named] == ["2 requests, lines 1 to 2", "f"]


def test_a_batch_that_no_input_holds_is_refused_with_what_to_do() -> None:
    prompts = [Prompt(number, "x") for number in range(1, 301)]
    large = [bytes(60_000)] * 300
    with pytest.raises(PostError, match=r"lines 1 to 300 have 18,000,000.* give a smaller --batch"):
        units_of(prompts, large, FORM, replace(WISH, batch=300), SERVICE.terms)


def test_posts_are_as_large_as_the_chain_allows() -> None:
    assert [len(part) for part in parts_of(range(70))] == [32, 32, 6]
    assert [place for part in parts_of(range(70)) for place in part] == list(range(70))
