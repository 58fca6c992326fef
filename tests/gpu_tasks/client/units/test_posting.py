"""Posting: its terms, its estimate, and that crashes and lost answers post nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from error_codes import raises_code
from gpu_tasks.batches.requests import REQUEST_BYTES_MAX, decode_requests
from gpu_tasks.client.units import posting_once
from gpu_tasks.client.units.costs import (
    ANSWERED_AFTER,
    DRAWN_AFTER,
    Estimate,
    RisingPrice,
    blocks_of,
    expected_check_fees,
    refused_facts,
    rising_price,
)
from gpu_tasks.client.units.line_reader import LineTerms
from gpu_tasks.client.units.lines import LineError
from gpu_tasks.client.units.posting import (
    PROMPT_FILE_BYTES_MAX,
    PROMPTS_MAX,
    AskedUnit,
    PostError,
    PostingCost,
    Prompt,
    Sealer,
    Wish,
    check_terms,
    parts_of,
    read_prompts,
    units_of,
)
from gpu_tasks.client.units.posting_once import Posted, PostingRecord, PostingRun, Progress
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.services import Service, ServiceTerms
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.workloads.form import Option, RequestError, WorkloadForm
from played_node import PlayedNode, growing, served
from runtime.cryptography.hashing import blake2_256
from wallet.amounts import Grains, format_amount
from wallet.client import ERA_BLOCKS, ChainClient, Outcome
from wallet.keypair import Keypair
from wallet.outbox import RecordError
from wallet.rpc import NodeUnreachableError
from wallet.suri import keypair_from_suri

WISH = Wish(service=3, cost_max=16, options={}, racers=2, rate_max=10_000_000)
SERVICE = Service(
    bytes(32),
    ServiceTerms(b"any", bytes(32), bytes(32), 1_000_000, 50_000_000, ramp=10, commit_window=30, tokens_max=64),
    0,
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
    ("data", "code"),
    [
        (b"", "invalid_file"),
        (b"\n \n", "invalid_file"),
        (b"ok\n\xff", "invalid_line"),
        (b"x\n" * (PROMPTS_MAX + 1), "too_many_prompts"),
        (b"x" * (PROMPT_FILE_BYTES_MAX + 1), "file_too_large"),
    ],
)
def test_files_that_are_none(data: bytes, code: str) -> None:
    with raises_code(PostError, code):
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
    with pytest.raises(PostError, match=r"lines 1 to 300 have 18,000,000.* --batch"):
        units_of(prompts, large, FORM, replace(WISH, batch=300), SERVICE.terms)


def test_posts_are_as_large_as_the_chain_allows() -> None:
    assert [len(part) for part in parts_of(range(70))] == [32, 32, 6]
    assert [place for part in parts_of(range(70)) for place in part] == list(range(70))


# Posting survives crashes and lost answers without posting twice (finding B5): a real chain and a real RPC server.


PRICE = 500_000
PROMPTS = [Prompt(number, f"prompt {number}") for number in range(1, 41)]  # two extrinsics
KEY: Keypair = keypair_from_suri("//Bob")


class FixedSealer(Sealer):
    """Stores nothing; the seal is of genesis, which the played chain's beacon calls final."""

    async def terms(self, requests: Sequence[AskedUnit], tell: Callable[[], None]) -> list[UnitTerms]:
        for _ in requests:
            tell()
        return [UnitTerms(unit.price_max, 1, blake2_256(unit.request), bytes(32), 0, 16) for unit in requests]


class CountingSealer(FixedSealer):
    """Seals otherwise each time that it is asked."""

    calls: ClassVar[list[list[bytes]]] = []

    async def terms(self, requests: Sequence[AskedUnit], tell: Callable[[], None]) -> list[UnitTerms]:
        self.calls.append([unit.request for unit in requests])
        number = bytes([len(self.calls)])
        terms = await FixedSealer.terms(self, requests, tell)
        return [
            replace(term, input_root=blake2_256(unit.request + number))
            for term, unit in zip(terms, requests, strict=True)
        ]


class Scene:
    """A chain that grows whenever something waits in its pool, and tries to post on it."""

    def __init__(self, folder: Path, node: PlayedNode, client: ChainClient) -> None:
        self.folder = folder
        self.node = node
        self.client = client
        self.said: list[str] = []

    async def attempt(self, salt: bytes = b"", price: int = PRICE) -> list[Posted]:
        with PostingRecord.open(self.folder / "postings", b"these") as record:
            posted = await self.run(record, salt, price).run()
            record.forget()
        return posted

    def run(self, record: PostingRecord, salt: bytes, price: int) -> PostingRun[AskedUnit]:
        units = [AskedUnit.of(salt + prompt.text.encode(), 1, 0, 16, price) for prompt in PROMPTS]
        sealer = FixedSealer(self.client, cast("Any", None), KEY, 0, 1)
        return PostingRun(sealer, record, PROMPTS, units, Progress(lambda: None, lambda: None, self.said.append))

    async def count(self) -> int:
        return int(await self.client.read(InferenceMarket.post_counts, KEY.account))


@asynccontextmanager
async def played(folder: Path) -> AsyncIterator[Scene]:
    async with (
        served(folder) as (node, port),
        await ChainClient.connect(f"ws://127.0.0.1:{port}") as client,
        growing(node, 0.05, lambda node: bool(node.pool)),
    ):
        yield Scene(folder, node, client)


async def test_all_are_posted_in_order_and_the_record_is_gone(tmp_path: Path) -> None:
    async with played(tmp_path) as scene:
        posted = await scene.attempt()
        assert [unit.prompt for unit in posted] == [prompt.text for prompt in PROMPTS]
        assert len({unit.unit for unit in posted}) == await scene.count() == len(PROMPTS)
        assert PostingRecord.look(scene.folder / "postings", b"these") == []
        assert len([text for text in scene.said if text.startswith("posting ")]) == 2


@pytest.mark.parametrize("was_sent", [True, False])
async def test_a_lost_answer_posts_nothing_twice(tmp_path: Path, *, was_sent: bool) -> None:
    async with played(tmp_path) as scene:
        real = scene.client.send

        async def lose(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
            if was_sent:
                await real(extrinsic, until=until)
            raise NodeUnreachableError("the connection broke")

        scene.client.send = lose  # type: ignore[method-assign]  # the node submits, then is gone
        with pytest.raises(PostError, match=r"32 units, from 0x[0-9a-f]{64} on may have been sent"):
            await scene.attempt(b"first ")
        scene.client.send = real  # type: ignore[method-assign]  # it is back
        async with beating(scene.node):
            posted = await scene.attempt(b"second ")  # another try seals anew, with other salts
        assert len({unit.unit for unit in posted}) == await scene.count() == len(PROMPTS)
        assert [unit.prompt for unit in posted] == [prompt.text for prompt in PROMPTS]


async def test_a_node_that_lies_about_what_was_posted_before_makes_nobody_post_twice(tmp_path: Path) -> None:
    """The record then notes a first number that the units do not have; `make liars` found it (`posted_before`)."""

    async with played(tmp_path) as scene:
        real = scene.client.read

        async def lie(item: Any, *keys: Any, at: bytes | None = None) -> Any:
            value = await real(item, *keys, at=at)
            return value + 1_000_000 if item is InferenceMarket.post_counts else value

        scene.client.read = lie  # type: ignore[method-assign]  # from a node that counts a million units more
        with raises_code(PostError, "not_in_block"):
            await scene.attempt(b"first ")
        scene.client.read = real  # type: ignore[method-assign]  # another node
        posted = await scene.attempt(b"second ")
        assert len({unit.unit for unit in posted}) == await scene.count() == len(PROMPTS)


@pytest.mark.parametrize("was_sent", [True, False])
async def test_who_wants_no_more_learns_what_was_posted_and_sends_nothing(tmp_path: Path, *, was_sent: bool) -> None:
    async with played(tmp_path) as scene:
        real = scene.client.send

        async def lose(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
            if was_sent:
                await real(extrinsic, until=until)
            raise NodeUnreachableError("the connection broke")

        scene.client.send = lose  # type: ignore[method-assign]  # the node submits or not, then is gone
        with raises_code(PostError, "maybe_sent"):
            await scene.attempt()
        scene.client.send = refuse  # type: ignore[method-assign]
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            if not was_sent:
                record.parts[0].expires_at = 3  # the played chain has one epoch, which is shorter
            async with beating(scene.node):
                posted = await scene.run(record, b"", PRICE).settle_alone()
            assert len(record.parts) == (1 if was_sent else 0)
        assert len(posted) == await scene.count() == (32 if was_sent else 0)
        assert "sends nothing" in scene.said[-1]


async def refuse(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
    raise AssertionError("nothing is to be sent")


async def test_nothing_more_is_posted_once_it_is_over(tmp_path: Path) -> None:
    async with played(tmp_path) as scene:
        answers = iter([False, True])
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            posted = await scene.run(record, b"", PRICE).run(lambda: next(answers))
        assert len(posted) == await scene.count() == 32


def beating(node: PlayedNode) -> AbstractAsyncContextManager[None]:
    """Make blocks without anything in them."""
    return growing(node, 0.3, lambda _: True)


async def test_what_can_be_in_no_block_any_more_is_signed_anew(tmp_path: Path) -> None:
    async with played(tmp_path) as scene:
        real = scene.client.send

        async def die(extrinsic: bytes, *, until: str = "finalized") -> Outcome:
            raise NodeUnreachableError("the connection broke")

        scene.client.send = die  # type: ignore[method-assign]  # it never reaches a node
        with pytest.raises(PostError):
            await scene.attempt()
        scene.client.send = real  # type: ignore[method-assign]
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            assert record.parts[0].expires_at == ERA_BLOCKS
        for _ in range(ERA_BLOCKS + 1):
            scene.node.author()
        async with beating(scene.node):
            await scene.attempt()
        assert await scene.count() == len(PROMPTS)


async def test_a_refused_post_says_so_and_is_not_looked_for_again(tmp_path: Path) -> None:
    async with played(tmp_path) as scene:
        with raises_code(PostError, "posting_failed"):
            await scene.attempt(price=1)
        assert len(await scene.attempt()) == len(PROMPTS)


async def test_inputs_that_wait_until_their_seal_is_old_are_sealed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting_once, "SEAL_MARGIN_BLOCKS", 1_000_000)
    monkeypatch.setattr(CountingSealer, "calls", [])

    async with played(tmp_path) as scene:
        sealer = CountingSealer(scene.client, cast("Any", None), KEY, 0, 1)
        units = [AskedUnit.of(prompt.text.encode(), 1, 0, 16, PRICE) for prompt in PROMPTS]
        progress = Progress(lambda: None, lambda: None, scene.said.append)
        with PostingRecord.open(scene.folder / "postings", b"these") as record:
            await PostingRun(sealer, record, PROMPTS, units, progress).run()
            posted = {
                place: root for part in record.parts for place, root in zip(part.places, part.input_roots, strict=True)
            }
            starts = [part.places[0] for part in record.parts]
            record.forget()
        assert len(starts) == 2
        sealed = [[unit.request for unit in units[start:]] for start in (0, *starts)]
        assert sealer.calls == sealed, "at first all, then those that are left when each part is posted"
        for place, unit in enumerate(units):
            newest = 1 + sum(start <= place for start in starts)
            assert posted[place] == blake2_256(unit.request + bytes([newest])).hex()


def test_a_record_is_one_process_s_and_holds_no_prompt(tmp_path: Path) -> None:
    with PostingRecord.open(tmp_path, b"a", b"b"):
        with pytest.raises(RecordError, match="another `ogpu unit post`"):
            PostingRecord.open(tmp_path, b"a", b"b")
        with PostingRecord.open(tmp_path, b"ab"):
            pass
    with PostingRecord.open(tmp_path, b"a", b"b") as record:
        path = record.outbox.path
        assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("{" * 1_000)
    with raises_code(RecordError, "record_damaged"):
        PostingRecord.open(tmp_path, b"a", b"b")


# What posting comes to: the price that rises, when it may be over, and lines that ask for nothing.


OGPU = 100_000_000
TERMS = ServiceTerms(
    b"writer", bytes(32), bytes(32), OGPU // 100, 20 * OGPU, ramp=10, commit_window=30, tokens_max=256, pace=64
)
WISH_OF_ESTIMATES = Wish(0, 64, {}, 2, OGPU // 20)
COST = PostingCost(3, locked=46_500_000, prepaid=480_000, fees=94_110, most=16_324_110)
RISING = RisingPrice(3, OGPU * 22 // 1000, OGPU // 20, 10)


def estimate(**changed: object) -> Estimate:
    found = Estimate(7, 100, 192, 192_000_000, COST, RISING, 5_000_000, 2, 13, 1_000, "token")
    return replace(found, **changed)  # type: ignore[arg-type]  # of the table below


@pytest.mark.parametrize(
    ("asks", "rising"),
    [
        ([1, 1], (3, OGPU * 22 // 1000)),
        ([1, OGPU * 22 // 1000], (3, OGPU * 22 // 1000)),
        ([1, OGPU * 22 // 1000 + 1], (4, OGPU * 26 // 1000)),
        ([1, OGPU // 20], (10, OGPU // 20)),
        ([1, OGPU // 20 + 1], None),
        ([1], None),
        ([], None),
        ([OGPU, 1, 1], (3, OGPU * 22 // 1000)),
    ],
)
def test_a_price_is_what_it_has_risen_to_when_enough_owners_take_it(
    asks: list[int], rising: tuple[int, int] | None
) -> None:
    found = rising_price(TERMS, WISH_OF_ESTIMATES, asks)
    assert found == (None if rising is None else RisingPrice(*rising, OGPU // 20, 10))
    if found is not None:
        assert found.drawn_after >= DRAWN_AFTER


def test_a_price_that_does_not_rise_is_the_most() -> None:
    found = rising_price(replace(TERMS, ramp=0), WISH_OF_ESTIMATES, [1, 1])
    assert found == RisingPrice(3, OGPU // 20, OGPU // 20, 0)
    assert found.sentence("token") == "drawn after 3 blocks you pay 0.05 oGPU per thousand tokens, the most"
    assert RISING.sentence("step") == (
        "drawn after 3 blocks you pay 0.022 oGPU per thousand steps; that rises to 0.05 after 10 blocks without a draw"
    )


def test_when_it_may_be_over_goes_by_the_devices_and_the_pace() -> None:
    base, thousand = 3 + ANSWERED_AFTER, 1_000 * 1_000_000
    assert blocks_of(TERMS.pace, [thousand], 1, 1, RISING) == base + 16
    assert blocks_of(TERMS.pace, [thousand] * 8, 1, 4, RISING) == base + 32
    assert blocks_of(TERMS.pace, [thousand] * 8, 2, 4, RISING) == base + 63, "each of two racers computes all of it"
    assert blocks_of(TERMS.pace, [thousand, 1], 1, 9, RISING) == base + 16, "a unit is one device's"
    assert blocks_of(0, [thousand], 1, 1, RISING) is None
    assert blocks_of(TERMS.pace, [thousand], 1, 1, None) is None


def test_people_read_sentences_and_programs_numbers() -> None:
    people, programs = (estimate().facts(is_for_programs=each) for each in (False, True))
    assert people["price"] == RISING.sentence("token")
    assert people["expected_end"] == "within about 13 blocks (13 s), if the 2 devices that offer it are free"
    unpaced = estimate(blocks=None).facts(is_for_programs=False)
    assert unpaced["expected_end"] == "not known: nobody says how fast this is computed"
    unmatched = estimate(price=None, expected=None, blocks=None).facts(is_for_programs=False)
    assert unmatched["expected_end"] == "not known: too few owners could race for it at this price now"
    assert estimate(price=None, expected=None).facts(is_for_programs=False)["price"].startswith("too few owners")
    shared = set(people) & set(programs)
    assert {name: people[name] for name in shared} == {name: programs[name] for name in shared}
    assert set(people) - shared == {"price", "expected_end"}
    assert (programs["price_at_draw"], programs["drawn_after_blocks"]) == (Grains(2_200_000), 3)
    assert (programs["price_at_last"], programs["price_at_last_after_blocks"]) == (Grains(5_000_000), 10)
    assert (programs["ends_after_blocks"], programs["ends_after_seconds"]) == (13, 13)
    assert programs["expected_per_thousand"] == -(-5_000_000 * 1000 // 192)
    assert format_amount(programs["most_per_thousand"]) == "0.85021407", "all that is gone, rounded up"
    assert estimate(work=0).facts(is_for_programs=True)["most_per_thousand"] is None


def test_the_first_refused_lines_are_named_and_the_others_counted() -> None:
    lines = [LineError(number, None, "unsupported_parameter", f"no {number}", None) for number in range(1, 6)]
    assert refused_facts([], is_for_programs=False) == {"refused": "0"}
    assert refused_facts(lines[:1], is_for_programs=False) == {"refused": "1: line 1: no 1"}
    assert refused_facts(lines, is_for_programs=False)["refused"] == (
        "5: line 1: no 1; line 2: no 2; line 3: no 3; and 2 more"
    )
    programs = refused_facts(lines, is_for_programs=True)
    assert (programs["refused"], [each["line"] for each in programs["refused_first"]]) == (5, [1, 2, 3])
    assert programs["refused_first"][0] == {"line": 1, "code": "unsupported_parameter", "message": "no 1"}


@pytest.mark.parametrize(
    ("price", "requests", "expected"),
    [
        (OGPU, 1, OGPU * 24 // 100 // 8),  # an eighth of the fee of a whole check, as docs/claims.md has it
        (OGPU, 40, round(OGPU * 0.24 / 8)),
        (OGPU // 1_000, 1, OGPU // 1_000 // 8),  # the least fee
    ],
)
def test_the_expected_fees_of_checks_are_an_eighth_of_a_whole_one_or_of_the_least_fee(
    price: int, requests: int, expected: int
) -> None:
    rules = replace(DEFAULT_RULES, check_ppm=240_000)
    assert expected_check_fees(rules, price, requests) == expected
    assert expected_check_fees(rules, price, requests) < money.check_fees_max(rules, price)
    assert expected_check_fees(replace(rules, check_rate_ppm=0), price, requests) == 0
