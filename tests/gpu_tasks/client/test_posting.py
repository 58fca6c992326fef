import pytest

from gpu_tasks.client.posting import (
    PROMPT_FILE_BYTES_MAX,
    PROMPTS_MAX,
    PostError,
    Wish,
    _parts,
    read_prompts,
    requests_of,
)
from gpu_tasks.workloads.textgen_int8.model import decode_model
from gpu_tasks.workloads.textgen_int8.request import context_length, decode_request, model_file

WISH = Wish(service=0, max_tokens=16, temperature_milli=800, racers=2, price_max=10)


def test_one_prompt_a_line() -> None:
    data = "def f():\n\n   \nclass A:\\n    x = 1\r\nprint('ü')\n".encode()
    assert read_prompts(data) == ["def f():", "class A:\n    x = 1", "print('ü')"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file has 0 prompts"),
        (b"\n \n", "the file has 0 prompts"),
        (b"ok\n\xff", "not UTF-8 at byte 3"),
        (b"x\n" * (PROMPTS_MAX + 1), "4,097 prompts: give 1 to 4,096"),
        (b"x" * (PROMPT_FILE_BYTES_MAX + 1), "split it"),
    ],
)
def test_files_that_are_none(data: bytes, why: str) -> None:
    with pytest.raises(PostError, match=why):
        read_prompts(data)


def test_requests_are_the_workloads_own_with_a_seed_each() -> None:
    found = [decode_request(one, context_length()) for one in requests_of(["a", "a"], WISH)]
    assert [(one.prompt, one.max_tokens, one.temperature_milli) for one in found] == [(b"a", 16, 800)] * 2
    assert found[0].seed != found[1].seed


def test_the_context_is_the_models() -> None:
    assert context_length() == decode_model(model_file()).shape.context
    requests_of(["x" * (context_length() - 16)], WISH)
    with pytest.raises(PostError, match=r"prompt 2 has .* bytes: with --max-tokens 16 the model's context"):
        requests_of(["x", "x" * (context_length() - 15)], WISH)
    with pytest.raises(PostError, match="temperature"):
        requests_of(["x"], Wish(0, 16, 10_001, 2, 10))


def test_posts_are_as_large_as_the_chain_allows() -> None:
    assert [len(part) for part in _parts(range(70))] == [32, 32, 6]
    assert [place for part in _parts(range(70)) for place in part] == list(range(70))
