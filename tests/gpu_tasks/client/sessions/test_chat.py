"""Questions and answers of a person, over a provider in memory."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from echoing_chat import chat_form
from echoing_provider import EchoingProvider, client_of
from echoing_session import SESSION
from error_codes import raises_code
from gpu_tasks.client.commands.chat import LAST_ANSWERS, Interrupts, Screen, answer_to, conversation, leaving_when_over
from gpu_tasks.client.sessions import chat as chat_module
from gpu_tasks.client.sessions import session_client
from gpu_tasks.client.sessions.chat import SYSTEM, Chat
from gpu_tasks.client.sessions.session_client import SessionClient
from gpu_tasks.client.sessions.session_reads import SessionError
from gpu_tasks.client.sessions.session_store import SessionFile
from gpu_tasks.workloads.form import ChatMessage


class Typed:
    """Lines that a person types. A number is a Ctrl-C."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    async def next(self) -> str | None:
        return self.lines.pop(0) if self.lines else None


class Room:
    """A chat with all its parts."""

    def __init__(self, store: SessionFile, provider: EchoingProvider, *, is_json: bool = False) -> None:
        self.client: SessionClient = client_of(store, provider)
        self.talk = Chat(self.client, chat_form(), store, {}, 100)
        self.screen = Screen(is_json=is_json)
        self.interrupts = Interrupts(self.client.cut)

    async def hold(self, *lines: str) -> None:
        await conversation(self.talk, self.screen, Typed(*lines), self.interrupts, lambda: 10**9 - self.client.spent)
        await self.client.close()

    async def answer(self, question: str | None) -> None:
        await answer_to(self.talk, self.screen, self.interrupts, lambda: 0, question)
        await self.client.close()


async def test_a_chat_prepares_its_model_before_the_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk and the provider see nothing of it, and a greeting that does not fit is no error."""
    with SessionFile(tmp_path, SESSION) as store:
        provider, form = EchoingProvider(), chat_form()
        room = Room(store, provider)
        room.talk = Chat(room.client, form, store, {}, 100)
        prepared: list[str] = []
        encode = form.encode_chat

        def noting(messages: Sequence[ChatMessage], *rest: Any) -> bytes:
            prepared.append(messages[-1].content)
            return encode(messages, *rest)

        monkeypatch.setattr(form, "encode_chat", noting)
        for greeting in ("Hello", "X"):
            monkeypatch.setattr(chat_module, "GREETING", greeting)
            room.talk.prepare()
        assert prepared == ["Hello", "X"]
        assert (store.turns, provider.entries) == ([], 0)


async def test_a_chat_tells_the_model_its_earlier_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        store.keep_fact(SYSTEM, "Be brief.")
        await Room(store, EchoingProvider()).hold("one", "", "/cost", "two", "three", "/quit", "four")
        assert [turn.question for turn in store.turns] == ["one", "two", "three"]
    told = capsys.readouterr()
    # With a system text and three turns, the third question drops the oldest turn of six messages.
    assert told.out == "2 one\n4 two\n6 three\n"
    assert told.err.count("left") == 4


async def test_a_mistyped_command_is_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        provider = EchoingProvider()
        await Room(store, provider).hold("/help", "/", "/etc/hosts", "/exit")
        assert [turn.question for turn in store.turns] == ["/", "/etc/hosts"]
    assert "/help" in capsys.readouterr().err


async def test_a_cut_answer_comes_first_with_its_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        room = Room(store, EchoingProvider())
        store.begin_turn("why\x1b[2J", room.talk.request("why"))
        await room.hold("b")
        assert [turn.is_over for turn in store.turns] == [True, True]
    told = capsys.readouterr()
    assert told.out == "1 why\n3 b\n"
    assert "why" in told.err.splitlines()[0]
    assert "\x1b" not in told.err


async def test_a_long_chat_forgets_its_oldest_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        await Room(store, EchoingProvider()).hold("a", "b", "c", "d", "e")
    assert capsys.readouterr().out == "1 a\n3 b\n5 c\n5 d\n5 e\n"


async def test_a_question_that_does_not_fit_is_named_and_the_chat_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        await Room(store, EchoingProvider()).hold("X", "b")
        assert [turn.question for turn in store.turns] == ["b"]
    told = capsys.readouterr()
    assert told.out == "1 b\n"
    assert "[question_too_long]" in told.err


async def test_lines_of_json_hold_pieces_and_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        room = Room(store, EchoingProvider(), is_json=True)
        await room.answer("why")
    *pieces, answer = map(json.loads, capsys.readouterr().out.splitlines())
    assert "".join(piece["text"] for piece in pieces) == answer["answer"] == "1 why"
    assert (answer["tokens_in"], answer["tokens_out"], answer["cost"]["grains"]) == (5, 5, "7500")
    assert int(answer["for_tokens"]["grains"]) >= 0


async def test_control_characters_of_a_model_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        await Room(store, EchoingProvider()).answer("\x1b[2J\a")
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda provider: setattr(provider.end, "amount_max", 10), "deposit_spent"),
        (lambda provider: setattr(provider, "is_reachable", False), "provider_gone"),
    ],
)
async def test_each_refusal_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[EchoingProvider], None], code: str
) -> None:
    monkeypatch.setattr(session_client, "GONE_SECONDS", 0.0)
    provider = EchoingProvider()
    spoil(provider)
    with SessionFile(tmp_path, SESSION) as store, raises_code(SessionError, code):
        await Room(store, provider).answer("why")


async def _while_answering(room: Room, act: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(room.hold("a long question", "b"))
    while not room.screen._text:
        await asyncio.sleep(0)
    await act()
    await asyncio.wait_for(task, 10)


async def test_ctrl_c_cuts_the_answer_and_the_chat_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        room = Room(store, EchoingProvider(step=1))

        async def act() -> None:
            room.interrupts.happen()

        await _while_answering(room, act)
        assert [turn.is_over for turn in store.turns] == [True, True]
        assert len(store.turns[0].tokens) < len("1 a long question")
    assert capsys.readouterr().out.endswith("3 b\n")


async def test_a_second_ctrl_c_leaves(tmp_path: Path) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        provider = EchoingProvider(step=1)
        provider.answer = lambda message: [message]
        room = Room(store, provider)

        async def act() -> None:
            room.interrupts.happen()
            room.interrupts.happen()

        await _while_answering(room, act)
        assert [turn.question for turn in store.turns] == ["a long question"]


async def test_a_chat_goes_on_where_a_killed_one_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer is shown from its beginning."""
    provider = EchoingProvider(step=1)
    with SessionFile(tmp_path, SESSION) as store:
        room = Room(store, provider)
        pieces = room.talk.ask("a question of many letters, and more of them")
        for _ in range(30):
            await anext(pieces)
        await pieces.aclose()
        await room.client.close()
    with SessionFile(tmp_path, SESSION) as store:
        await Room(store, provider).hold("b")
        assert [turn.question for turn in store.turns][1:] == ["b"]
    assert capsys.readouterr().out == "1 a question of many letters, and more of them\n3 b\n"


async def test_a_person_that_types_nothing_hears_that_the_session_is_over(tmp_path: Path) -> None:
    with SessionFile(tmp_path, SESSION) as store:
        provider = EchoingProvider()
        room = Room(store, provider)

        async def over() -> None:
            raise SessionError("over", code="session_closing")

        class Silent:
            """A person that types nothing."""

            async def next(self) -> str | None:
                provider.lines[-1].break_off()
                await asyncio.Event().wait()
                return None

        room.client.require_open = over
        await room.client.enter()
        with raises_code(SessionError, "session_closing"):
            async with asyncio.timeout(5), leaving_when_over(room.client, room.interrupts):
                await conversation(room.talk, room.screen, Silent(), room.interrupts, lambda: 0)
        await room.client.close()


@pytest.mark.parametrize(("left", "is_told"), [(10**6, False), (100_000, True), (0, True)])
async def test_a_customer_hears_that_the_deposit_is_nearly_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: int, is_told: bool
) -> None:
    """An answer of 100 tokens costs 100,000 grains."""
    with SessionFile(tmp_path, SESSION) as store:
        room = Room(store, EchoingProvider())
        await answer_to(room.talk, room.screen, room.interrupts, lambda: left, "why")
        await room.client.close()
    assert (LAST_ANSWERS in " ".join(capsys.readouterr().err.split())) == is_told


def test_chats_with_one_seed_draw_alike(tmp_path: Path) -> None:
    """Each question has draws of its own."""

    class Seeds:
        """Notes the seeds of requests."""

        def __init__(self) -> None:
            self.seen: list[bytes] = []

        def encode_chat(self, _messages: object, _tokens: int, _options: object, seed: bytes) -> bytes:
            self.seen.append(seed)
            return b""

    seen = []
    for name, seed in (("a", 7), ("b", 7), ("c", -(2**63)), ("d", None), ("e", None)):
        form = Seeds()
        with SessionFile(tmp_path / name, SESSION) as store:
            talk = Chat(client_of(store, EchoingProvider()), form, store, {}, 9, seed)  # type: ignore[arg-type]
            for _ in range(2):
                talk.request("why")
                store.begin_turn("why", b"").is_over = True
        seen.append(tuple(form.seen))
    assert seen[0] == seen[1]
    assert len({seed for each in seen[1:] for seed in each}) == 8
    assert {len(seed) for each in seen for seed in each} == {32}
