"""Chat templates: the text of a chat, and hostile templates that no sandbox of Jinja bounds."""

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.models import chat_template as chat_template_module
from gpu_tasks.models.chat_template import CHAT_TEMPLATE_MAX, MESSAGES_MAX, ChatTemplate, render_chat
from gpu_tasks.models.text import TextError
from tiny_models import CHAT_TEMPLATE

MESSAGES = [{"role": "user", "content": "Hello <b>&'é🙂"}]


def test_chat_with_and_without_the_start_of_an_answer() -> None:
    with ChatTemplate(CHAT_TEMPLATE) as template:
        text = "<|im_start|>user\nHello <b>&'é🙂<|im_end|>\n"
        assert template.render(MESSAGES) == text + "<|im_start|>assistant\n"
        assert template.render(MESSAGES, generation_prompt=False) == text


def test_parts_of_jinja_that_templates_of_models_use() -> None:
    template = (
        "{{- bos_token }}\n"
        "{%- for message in messages %}\n"
        "    {%- if loop.index0 == 1 %}{% continue %}{% endif %}\n"
        "    {%- if message.content is string %}{{ message.content | trim }}{% else %}{{ message | tojson }}"
        "{% endif %}\n"
        "{%- endfor %}\n"
        "{% if tools is defined %}t{% endif %}"
    )
    messages: list[dict[str, object]] = [{"content": " <é> "}, {"content": "left out"}, {"content": ["<é>"]}]
    assert render_chat(template, messages, variables={"bos_token": "<s>"}) == '<s><é>{"content": ["<é>"]}'


def test_many_chats_share_a_process() -> None:
    with ChatTemplate(CHAT_TEMPLATE) as template, ThreadPoolExecutor(4) as threads:
        chats = [[{"role": "user", "content": str(place)}] for place in range(50)]
        process = template.render(chats[0]) and template._process
        texts = list(threads.map(template.render, chats))
        assert template._process is process
    assert all(f"user\n{place}<" in text for place, text in enumerate(texts))


def test_chat_as_long_as_the_longest_context() -> None:
    content = "word " * 150_000
    assert content in render_chat(CHAT_TEMPLATE, [{"role": "user", "content": content}])


def test_template_refuses_messages_by_its_own_words() -> None:
    with raises_code(TextError, "chat_template"):
        render_chat("{{ raise_exception('no system prompt') }}", MESSAGES)


@pytest.mark.parametrize(
    "template",
    [
        "{% if %}",
        "{{ nothing.name }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ (''|attr('format')|attr('__globals__')).os }}",
        "{% include 'a' %}",
        "{% import 'os' as os %}",
        "{{ 1 / 0 }}",
        "{{ lipsum() }}",
        "{{ [1, 2]|random }}",
    ],
)
def test_template_that_fails(template: str) -> None:
    with raises_code(TextError, "chat_template"):
        render_chat(template, MESSAGES)


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{{ 'a' * 10 ** 12 }}",
        "{{ 'a' * 10 ** 7 }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ 'a'.ljust(10 ** 10) }}",
        "{% for i in range(100000) %}{{ 'a' * 100 }}{% endfor %}",
        "{% set x = namespace(y='aa') %}{% for i in range(99) %}{% set x.y = x.y ~ x.y %}{% endfor %}",
        "{{ " + "(" * 5_000 + " }}",
        "a" * (CHAT_TEMPLATE_MAX + 1),
    ],
    ids=lambda template: template[:30],
)
def test_template_without_bounds_is_ended(template: str) -> None:
    with raises_code(TextError, "chat_template_limit"):
        render_chat(template, MESSAGES)


def test_template_that_hangs_is_ended_and_the_next_chat_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template_module, "WALL_SECONDS", 0.2)
    loop = "{% for i in range(messages[0].n) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    with ChatTemplate(loop) as template:
        start = time.monotonic()
        with raises_code(TextError, "chat_template_limit"):
            template.render([{"n": 100_000}])
        assert time.monotonic() - start < 10
        monkeypatch.setattr(chat_template_module, "WALL_SECONDS", 60.0)
        assert template.render([{"n": 1}]) == ""


def test_ended_process_is_replaced() -> None:
    with ChatTemplate(CHAT_TEMPLATE) as template:
        template.render(MESSAGES)
        assert template._process is not None
        template._process.kill()
        template._process.wait()
        assert template.render(MESSAGES)


def test_template_that_leaves_the_sandbox_finds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSPHRASE", "secret")
    with ChatTemplate(CHAT_TEMPLATE) as template:
        template.render(MESSAGES)
        assert template._process is not None
        assert Path(f"/proc/{template._process.pid}/environ").read_bytes() == b""


def test_answer_to_an_interrupted_chat_reaches_no_other_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(process: subprocess.Popen[bytes], request: bytes, deadline: float) -> bytes:
        assert process.stdin is not None
        process.stdin.write(request)
        process.stdin.flush()
        raise KeyboardInterrupt

    with ChatTemplate("{{ messages[0].content }}") as template:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(chat_template_module, "_exchanged", interrupted)
            template.render([{"content": "first"}])
        assert template.render([{"content": "second"}]) == "second"


def test_chat_that_is_too_much_or_no_json() -> None:
    with ChatTemplate(CHAT_TEMPLATE) as template:
        with raises_code(TextError, "text_length"):
            template.render([{}] * (MESSAGES_MAX + 1))
        with raises_code(TextError, "text_length"):
            template.render([{"content": "a" * 9_000_000}])
        with raises_code(TextError, "chat_template"):
            template.render([{"content": object()}])
        assert template._process is None


def test_same_chat_gives_the_same_text_in_every_process() -> None:
    template = "{{ messages | map(attribute='content') | list }}{{ messages[0] | dictsort }}{{ messages[0] }}"
    assert len({render_chat(template, MESSAGES) for _ in range(3)}) == 1


def test_no_way_to_the_clock() -> None:
    assert json.loads(render_chat("{{ [strftime_now is defined, now is defined] | tojson }}", MESSAGES)) == [False] * 2
