"""Every form of a line, every refusal, and the memory that a large file needs."""

import codecs
import json
import random
import time
import tracemalloc
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.batches.requests import REQUEST_BYTES_MAX
from gpu_tasks.client.units import line_reader, lines
from gpu_tasks.client.units.line_reader import MESSAGES_MAX, BatchReader, LineTerms
from gpu_tasks.client.units.lines import BatchFileError, BatchLine, FileForm, LineError
from gpu_tasks.client.units.posting import PostError, read_prompts
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.form import ChatMessage, Option

# Every form of a line, and everything that is refused.


FORM = model_forms.form_named("decoder-int8:ogpu-bytes")
TERMS = LineTerms(FORM, ("decoder-int8:ogpu-bytes", "small"), 16, 64, {"temperature": "0.5"}, bytes(32))
OPENAI: dict[str, Any] = {
    "custom_id": "a",
    "method": "POST",
    "url": "/v1/completions",
    "body": {"model": "small", "prompt": "Once"},
}
CHAT: dict[str, Any] = {
    "custom_id": "a",
    "method": "POST",
    "url": "/v1/chat/completions",
    "body": {"model": "small", "messages": [{"role": "user", "content": "Hi"}]},
}


def read(data: bytes, form: FileForm | None = None, terms: LineTerms = TERMS) -> list[BatchLine | LineError]:
    return list(BatchReader(BytesIO(data), terms, form))


def one(data: bytes | dict[str, Any], form: FileForm | None = None) -> BatchLine | LineError:
    found = read(data if isinstance(data, bytes) else json.dumps(data).encode(), form)
    assert len(found) == 1
    return found[0]


def line(data: bytes | dict[str, Any], form: FileForm | None = None) -> BatchLine:
    found = one(data, form)
    assert isinstance(found, BatchLine), found
    return found


def refusal(data: bytes | dict[str, Any], form: FileForm | None = None) -> tuple[str, str | None]:
    found = one(data, form)
    assert isinstance(found, LineError), found
    return found.code, found.param


def test_an_id_of_the_other_form_is_named() -> None:
    named = {"id": "x", **{name: value for name, value in OPENAI.items() if name != "custom_id"}}
    found = one(named)
    assert isinstance(found, LineError)
    assert (found.code, found.param) == ("missing_required_parameter", "custom_id")
    assert found.message == "custom_id is missing: you wrote id; the format wants custom_id"
    unnamed = one({name: value for name, value in OPENAI.items() if name != "custom_id"})
    assert isinstance(unnamed, LineError)
    assert unnamed.message == "custom_id is missing"


def body(**fields: Any) -> dict[str, Any]:
    return {**OPENAI, "body": {**OPENAI["body"], **fields}}


def chat(**fields: Any) -> dict[str, Any]:
    return {**CHAT, "body": {**CHAT["body"], **fields}}


def messages(*given: Any) -> dict[str, Any]:
    return chat(messages=list(given))


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"Once upon\n", FileForm.LINES),
        (b"\n\n  \nOnce", FileForm.LINES),
        (b"[INST] Hi [/INST]", FileForm.LINES),
        (b"[1, 2 and 3]", FileForm.LINES),
        (b"[" * 50_000, FileForm.LINES),
        (b"\xef\xbb\xbfOnce", FileForm.LINES),
        (b'{"prompt": "x"}', FileForm.OBJECTS),
        (b'\xef\xbb\xbf{"prompt": "x"}', FileForm.OBJECTS),
        (b'\n{"nothing": 1}', FileForm.OBJECTS),
        (json.dumps(OPENAI).encode(), FileForm.OPENAI),
        *[(f'{{"{name}": 1}}'.encode(), FileForm.OPENAI) for name in ("method", "url", "body")],
        (b"x" * (lines.LINE_BYTES_MAX + 1), FileForm.LINES),
    ],
)
def test_the_first_line_tells_the_form(data: bytes, form: FileForm) -> None:
    assert BatchReader(BytesIO(data), TERMS).form is form


def test_broken_json_is_not_taken_for_a_prompt_unless_that_is_said() -> None:
    with pytest.raises(BatchFileError, match="--form lines"):
        read(b'{"prompt": "x"\n')
    assert line(b'{"prompt": "x"\n', FileForm.LINES).text == '{"prompt": "x"'


@pytest.mark.parametrize("between", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_a_line_is_one_to_editors_too(between: str) -> None:
    data = f"Page one.{between}Page two\r\nSecond line.\n".encode()
    texts = [(1, f"Page one.{between}Page two"), (2, "Second line.")]
    assert [(found.number, found.text) for found in read(data) if isinstance(found, BatchLine)] == texts


MARK = b"\xef\xbb\xbf"


def test_a_mark_of_utf_8_is_no_part_of_a_prompt() -> None:
    assert [found.text for found in read(MARK + b"one\r\ntwo") if isinstance(found, BatchLine)] == ["one", "two"]
    assert line(MARK + b'{"prompt": "x"}').text == "x"
    assert line(MARK + json.dumps(OPENAI).encode()).text == "Once"


def test_a_mark_of_another_encoding_in_a_later_line_refuses_that_line_alone() -> None:
    first, second, third = read(b"one\n\xff\xfetwo\nthree\n")
    assert [isinstance(found, BatchLine) for found in (first, second, third)] == [True, False, True]
    assert isinstance(second, LineError)
    assert second.number == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("form", [None, *FileForm])
def test_other_encodings_are_refused_as_a_whole(encoding: str, form: FileForm | None) -> None:
    data = '{"prompt": "one"}\r\nzwölf\r\n'.encode(encoding)
    with pytest.raises(BatchFileError):
        read(data, form)


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_utf_16_is_known_by_its_mark_where_no_byte_is_zero(mark: bytes) -> None:
    with pytest.raises(BatchFileError):
        read(mark + b"\x4e\x2d\x65\x87")


@pytest.mark.parametrize(
    "later",
    ["\0", '{"prompt": "x"}', '{"custom_id": "a"}', ' {"messages": []} ', '{"body": 1}', '{"url": 1}', '{"method": 1}'],
)
def test_a_line_that_nobody_means_as_a_prompt_refuses_the_file(later: str) -> None:
    data = f"one\ntwo\n{later}\n".encode()
    with pytest.raises(BatchFileError):
        read(data)
    if later != "\0":
        assert len(read(data, FileForm.LINES)) == 3


@pytest.mark.parametrize("later", ["{x}", '{"a": 1}', "[1]", "{{ name }}", '{"prompt": ', "[INST]"])
def test_a_later_line_that_looks_like_json_may_be_a_prompt(later: str) -> None:
    data = f"one\n{later}\n".encode()
    assert [found.text for found in read(data) if isinstance(found, BatchLine)] == ["one", later]


@pytest.mark.parametrize(
    "data",
    [b'[\n {"prompt": "Once"},\n {"prompt": "Two"}\n]\n', b'["Once", "Two"]', b"[]", b'[{"prompt": "x"}]', b"\n["],
)
def test_a_list_in_json_is_no_prompt(data: bytes) -> None:
    with pytest.raises(BatchFileError, match="--form lines"):
        read(data)


@pytest.mark.parametrize("data", [b'{"prompt": "x"}\n', json.dumps(OPENAI).encode(), MARK + b'{"a": 1}', b'\n {"x'])
def test_requests_without_a_file_for_their_answers_are_refused(data: bytes) -> None:
    with pytest.raises(PostError, match="--form lines"):
        read_prompts(data, TERMS)
    assert len(read_prompts(data, TERMS, is_told=True)[0]) == 1


def test_a_plain_object_says_how_much_how_and_who() -> None:
    found = line({"prompt": "Once", "max_tokens": 8, "temperature": 0.25, "seed": 7, "id": "x"})
    assert (found.number, found.custom_id, found.text, found.cost_max) == (1, "x", "Once", 8)
    assert found.options == {"temperature": "0.25"}
    assert line({"prompt": "b", "custom_id": "y"}).custom_id == "y"
    assert line({"prompt": "b", "id": None, "custom_id": "y", "max_tokens": None}).cost_max == TERMS.cost_default


def test_openai_lines() -> None:
    found = line(body(max_tokens=3, temperature=0, seed=-1))
    assert (found.custom_id, found.text, found.cost_max, found.options) == ("a", "Once", 3, {"temperature": "0"})
    found = line(
        chat(
            max_completion_tokens=5,
            messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        )
    )
    assert (found.text, found.cost_max) == ("system: Be brief.\nuser: Hi\nassistant:", 5)
    assert found.messages == (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"))
    assert TERMS.request(found) == TERMS.request(replace(found, messages=()))


def test_a_model_gets_the_messages_of_a_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TERMS.form, "encode_chat", lambda messages, *_others: repr(messages).encode())
    found = line(chat())
    assert TERMS.request(found) == repr((ChatMessage("user", "Hi"),)).encode()


def test_an_option_of_two_words_has_a_field_with_an_underscore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORM, "options", (*FORM.options, Option("top-p", "1", "")))
    monkeypatch.setattr(FORM, "encode", lambda *_: b"a request")
    assert line(body(top_p=0.9)).options == line({"prompt": "x", "top_p": 0.9}).options == {"top-p": "0.9"}
    assert refusal({"prompt": "x", "top-p": 0.9}) == (UNSUPPORTED, "top-p")


def test_a_temperature_is_never_rounded() -> None:
    assert line(b'{"prompt": "x", "temperature": 0.100}').options == {"temperature": "0.100"}
    assert refusal(b'{"prompt": "x", "temperature": 0.10000000000000000555}') == ("invalid_request", None)


def test_seeds() -> None:
    same = {line({"prompt": text, "seed": 7}).seed for text in ("a", "b")}
    assert len(same) == 1
    assert line({"prompt": "a", "seed": 8}).seed not in same
    own = [found.seed for found in read(b"a\na\n") if isinstance(found, BatchLine)]
    assert len(set(own)) == 2
    assert own == [found.seed for found in read(b"a\na\n") if isinstance(found, BatchLine)]
    other = LineTerms(FORM, TERMS.models, 16, 64, {}, bytes([1]) * 32)
    assert not set(own) & {found.seed for found in read(b"a\na\n", terms=other) if isinstance(found, BatchLine)}


def test_what_is_set_for_all_lines_holds_unless_a_line_sets_it() -> None:
    encoded = TERMS.request(line({"prompt": "x", "seed": 1}))
    assert encoded == TERMS.request(line({"prompt": "x", "seed": 1, "temperature": "0.5"}))
    assert encoded != TERMS.request(line({"prompt": "x", "seed": 1, "temperature": "0.6"}))


UNSUPPORTED = "unsupported_parameter"
MISSING = "missing_required_parameter"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"prompt": "x"', ("invalid_json_line", None)),
        (b'{"prompt": "x"} {}', ("invalid_json_line", None)),
        (b'["prompt"]', ("invalid_json_line", None)),
        (b'{"prompt": "x", "prompt": "y"}', ("invalid_json_line", None)),
        (b'{"prompt": "x", "temperature": NaN}', ("invalid_json_line", None)),
        (b'{"prompt": "x", "seed": ' + b"1" * 5_000 + b"}", ("invalid_json_line", None)),
        (b'{"a": ' * 50_000, ("invalid_json_line", None)),
        (b'{"prompt": "\xff"}', ("invalid_encoding", None)),
        (b'{"prompt": "\\ud800"}', ("invalid_value", "prompt")),
        (b'{"prompt": "x", "id": "\\udfff"}', ("invalid_value", "id")),
        ({}, (MISSING, "prompt")),
        ({"prompt": None}, (MISSING, "prompt")),
        ({"prompt": 3}, ("invalid_type", "prompt")),
        ({"prompt": ["x"]}, ("invalid_type", "prompt")),
        ({"prompt": "x", "max_tokens": 0}, ("invalid_value", "max_tokens")),
        ({"prompt": "x", "max_tokens": 65}, ("invalid_value", "max_tokens")),
        ({"prompt": "x", "max_tokens": 1.5}, ("invalid_type", "max_tokens")),
        ({"prompt": "x", "max_tokens": "8"}, ("invalid_type", "max_tokens")),
        ({"prompt": "x", "max_tokens": True}, ("invalid_type", "max_tokens")),
        ({"prompt": "x", "seed": 2**63}, ("invalid_value", "seed")),
        ({"prompt": "x", "seed": -(2**63) - 1}, ("invalid_value", "seed")),
        ({"prompt": "x", "temperature": False}, ("invalid_type", "temperature")),
        ({"prompt": "x", "temperature": 11}, ("invalid_request", None)),
        ({"prompt": "x" * 2_000}, ("invalid_request", None)),
        ({"prompt": ""}, ("invalid_request", None)),
        ({"prompt": "x", "id": ""}, ("invalid_value", "id")),
        ({"prompt": "x", "id": 5}, ("invalid_type", "id")),
        ({"prompt": "x", "id": "y" * 513}, ("invalid_value", "id")),
        ({"prompt": "x", "id": "y", "custom_id": "y"}, ("invalid_value", "custom_id")),
        ({"prompt": "x", "top_k": 1}, (UNSUPPORTED, "top_k")),
        ({"prompt": "x", "model": "small"}, (UNSUPPORTED, "model")),
    ],
)
def test_refused_objects(data: Any, expected: tuple[str, str | None]) -> None:
    assert refusal(data, FileForm.OBJECTS) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({**OPENAI, "custom_id": None}, (MISSING, "custom_id")),
        ({**OPENAI, "custom_id": 4}, ("invalid_type", "custom_id")),
        ({**OPENAI, "id": "x"}, (UNSUPPORTED, "id")),
        ({**OPENAI, "method": "GET"}, ("invalid_method", "method")),
        ({**OPENAI, "method": None}, (MISSING, "method")),
        ({**OPENAI, "url": None}, (MISSING, "url")),
        ({**OPENAI, "url": "/v1/embeddings"}, ("invalid_url", "url")),
        ({**OPENAI, "url": ["/v1/completions"]}, ("invalid_url", "url")),
        ({**OPENAI, "body": None}, (MISSING, "body")),
        ({**OPENAI, "body": []}, ("invalid_type", "body")),
        (body(model=None), (MISSING, "body.model")),
        (body(model="gpt-4o"), ("mismatched_model", "body.model")),
        (body(model=1), ("invalid_type", "body.model")),
        (body(prompt=None), (MISSING, "body.prompt")),
        (body(prompt=["a", "b"]), ("invalid_type", "body.prompt")),
        (body(messages=[]), (UNSUPPORTED, "body.messages")),
        (body(max_completion_tokens=5), (UNSUPPORTED, "body.max_completion_tokens")),
        *[
            (body(**{name: 1}), (UNSUPPORTED, f"body.{name}"))
            for name in (
                "n",
                "best_of",
                "stream",
                "stop",
                "suffix",
                "echo",
                "logit_bias",
                "presence_penalty",
                "frequency_penalty",
                "user",
                "x",
            )
        ],
        (body(stop=None), (UNSUPPORTED, "body.stop")),
        *[
            (chat(**{name: 1}), (UNSUPPORTED, f"body.{name}"))
            for name in (
                "tools",
                "tool_choice",
                "response_format",
                "top_logprobs",
                "stream",
                "n",
                "prompt",
                "functions",
            )
        ],
        (chat(max_tokens=1, max_completion_tokens=1), ("invalid_value", "body.max_completion_tokens")),
        (chat(messages=None), (MISSING, "body.messages")),
        (chat(messages="Hi"), ("invalid_type", "body.messages")),
        (messages(), ("invalid_value", "body.messages")),
        (messages(*[{"role": "user", "content": ""}] * (MESSAGES_MAX + 1)), ("invalid_value", "body.messages")),
        (messages("Hi"), ("invalid_type", "body.messages[0]")),
        (messages({"role": "user"}), (MISSING, "body.messages[0].content")),
        (messages({"content": "x"}), (MISSING, "body.messages[0].role")),
        (messages({"role": "tool", "content": "x"}), ("invalid_value", "body.messages[0].role")),
        (messages({"role": {}, "content": "x"}), ("invalid_value", "body.messages[0].role")),
        (messages({"role": "user", "content": None}), ("invalid_type", "body.messages[0].content")),
        (messages({"role": "user", "content": [{"type": "text"}]}), ("invalid_type", "body.messages[0].content")),
        (messages({"role": "user", "content": "x", "name": "y"}), (UNSUPPORTED, "body.messages[0].name")),
    ],
)
def test_refused_openai_lines(data: Any, expected: tuple[str, str | None]) -> None:
    assert refusal(data, FileForm.OPENAI) == expected


def test_a_file_asks_one_endpoint() -> None:
    data = [{**OPENAI, "custom_id": "0", "url": "/nowhere"}, {**CHAT, "custom_id": "1"}, {**OPENAI, "custom_id": "2"}]
    reader = BatchReader(BytesIO("\n".join(map(json.dumps, data)).encode()), TERMS)
    found = [getattr(each, "code", "") for each in reader]
    assert found == ["invalid_url", "", "invalid_url"]
    assert reader.endpoint == "/v1/chat/completions"


def test_an_id_stands_once_even_if_its_line_was_refused() -> None:
    found = read(b'{"prompt": 3, "id": "a"}\n\n{"prompt": "x", "id": "a"}\n{"prompt": "x", "id": "b"}\n')
    assert [(each.number, getattr(each, "code", "")) for each in found] == [
        (1, "invalid_type"),
        (3, "duplicate_custom_id"),
        (4, ""),
    ]
    assert isinstance(found[1], LineError)
    assert "line 1" in found[1].message


def test_the_digest_is_of_the_whole_file() -> None:
    digests = []
    for data in (b"\na\nb", b"\na\nb", b"a\nb", b"\na\nb\n", b"\na\nc"):
        reader = BatchReader(BytesIO(data), TERMS)
        list(reader)
        digests.append(reader.digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


NAMES = st.sampled_from(
    "custom_id id method url body model prompt messages role content max_tokens temperature seed n".split()
) | st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(NAMES, JSON, max_size=6) | JSON, min_size=1, max_size=4), st.sampled_from(FileForm))
def test_whatever_stands_in_a_line_becomes_a_request_or_a_reason(values: list[Any], form: FileForm) -> None:
    found = read("\n".join(map(json.dumps, values)).encode(), form)
    assert [each.number for each in found] == list(range(1, len(values) + 1))
    for each in found:
        if isinstance(each, BatchLine):
            TERMS.request(each)
        else:
            json.dumps([each.code, each.message, each.param]).encode()
            f"{each.message} {each.param}".encode()


@given(
    st.text(min_size=1, max_size=60),
    st.integers(1, 64),
    st.integers(0, 999),
    st.integers(-(2**63), 2**63 - 1),
    st.text(min_size=1),
)
def test_what_is_written_is_read(text: str, cost: int, milli: int, seed: int, name: str) -> None:
    temperature = f"0.{milli:03}"
    fields = f'"max_tokens": {cost}, "temperature": {temperature}, "seed": {seed}'
    for data in (
        f'{{"prompt": {json.dumps(text)}, "id": {json.dumps(name)}, {fields}}}',
        (
            f'{{"custom_id": {json.dumps(name)}, "method": "POST", "url": "/v1/completions", '
            f'"body": {{"model": "small", "prompt": {json.dumps(text)}, {fields}}}}}'
        ),
    ):
        found = line(data.encode())
        assert (found.text, found.cost_max, found.custom_id) == (text, cost, name)
        assert found.options == {"temperature": temperature}
        assert found.seed == line({"prompt": "x", "seed": seed}).seed


# What a large file costs its reader, and what is too large.


TERMS_OF_READING_LIMITS = LineTerms(FORM, ("small",), 16, 64, {}, bytes(32))


def test_lines_that_are_no_text_or_too_long_cost_only_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "LINE_BYTES_MAX", 100)
    found = read(b"a\n" + b"\xff\n" + b"y" * 101 + b"\n" + b"z" * 1_000 + b"\nb\n" + b"w" * 100)
    assert [(each.number, getattr(each, "code", "")) for each in found] == [
        (1, ""),
        (2, "invalid_encoding"),
        (3, "line_too_long"),
        (4, "line_too_long"),
        (5, ""),
        (6, ""),
    ]


def test_a_request_of_a_batch_is_small() -> None:
    (line,) = read(b"abc")
    assert isinstance(line, BatchLine)
    assert TERMS_OF_READING_LIMITS.bytes_max == REQUEST_BYTES_MAX
    terms = replace(TERMS_OF_READING_LIMITS, bytes_max=len(TERMS_OF_READING_LIMITS.request(line)))
    assert read(b"abc", terms=terms) == [line]
    assert [getattr(each, "code", "") for each in read(b"abcd", terms=terms)] == ["request_too_large"]
    assert lines.LINE_BYTES_MAX > 6 * REQUEST_BYTES_MAX


def test_a_name_that_stands_twice_is_found_in_one_pass() -> None:
    """A line of 512 KiB with 45,000 names took a minute and more, each such line of a stranger's file."""
    names = (*(f"n{number}" for number in range(45_000)), "n44999")
    line = ("{" + ",".join(f'"{name}":1' for name in names) + "}").encode()
    assert lines.LINE_BYTES_MAX // 2 < len(line) <= lines.LINE_BYTES_MAX
    before = time.process_time()
    (found,) = read(line, FileForm.OBJECTS)
    assert time.process_time() - before < 5
    assert isinstance(found, LineError)
    assert found.message.endswith("'n44999' stands in it twice")


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n \n"])
def test_an_empty_file_is_none(data: bytes) -> None:
    for form in (None, *FileForm):
        with raises_code(BatchFileError, "file_empty"):
            read(data, form)


def test_too_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "LINES_MAX", 3)
    assert len(read(b"a\n\n\n\na\na")) == 3
    with raises_code(BatchFileError, "too_many_requests"):
        read(b"a\n" * 4)
    with raises_code(BatchFileError, "too_many_empty_lines"):
        read(b"a\n\n\n\n\n")
    with raises_code(BatchFileError, "file_empty"):
        read(b"\n\n\n\n\na")
    monkeypatch.setattr(line_reader, "FILE_BYTES_MAX", 4)
    assert len(read(b"ab\nc")) == 2
    with raises_code(BatchFileError, "file_too_large"):
        read(b"ab\ncd")


@pytest.mark.nightly
def test_a_full_file_is_never_in_memory(tmp_path: Path) -> None:
    """50,000 lines of 4,000 bytes are 200 MB: the reader keeps one line, and a hash of each id."""
    path, chance = tmp_path / "full.jsonl", random.Random(1)
    with path.open("wb") as stream:
        for number in range(lines.LINES_MAX):
            value = {"prompt": "word " * chance.randrange(1, 40), "id": f"request-{number}"}
            stream.write(json.dumps(value).encode().ljust(3_980) + b"\n")
    assert lines.FILE_BYTES_MAX - 2_000_000 < path.stat().st_size <= lines.FILE_BYTES_MAX
    with path.open("rb") as stream:
        count = sum(isinstance(found, BatchLine) for found in BatchReader(stream, TERMS_OF_READING_LIMITS))
    assert count == lines.LINES_MAX
    with path.open("rb") as stream:
        tracemalloc.start()
        try:
            for place, _ in enumerate(BatchReader(stream, TERMS_OF_READING_LIMITS)):
                if place == 9_999:
                    break
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4_000_000
