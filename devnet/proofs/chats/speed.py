"""Four chats at once beside the bare engine: time to the first token, and tokens a second.

Chats and engine take turns in each round, while the same devnet runs, with the same requests. So the nodes slow both
down alike. The first question has 64 tokens. Each later one sends the whole chat, and so do its requests at the engine.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from devnet.proofs.chats import sold_sessions
from devnet.proofs.chats.bare import BareEngine, EngineRun
from devnet.proofs.chats.chat_program import ChatProgram, TimedAnswer
from devnet.proofs.chats.network import ChatStage
from devnet.proofs.chats.sold_sessions import OpenedSession
from devnet.proofs.market.processes import cpu_seconds
from gpu_tasks.workloads.decoder_int8.request import WORKLOAD_NAME as DECODER
from gpu_tasks.workloads.form import ChatMessage, WorkloadForm

CHATS = 4
PROMPT_TOKENS = 64
FIRST_SECONDS_MAX = 1.0
"""The most time to a first token beyond the engine's."""
SHARE_MIN = 0.8
"""The least part of the engine's tokens a second."""
TOKENS_MIN = 0.5
"""The least part of the wanted tokens: short answers measure nothing."""
TOPICS = ("a lighthouse keeper", "a mountain village", "a river that changes its course", "an old clockmaker")
WORDS = (
    "Write a long and detailed story about {topic}. Describe the place, the weather, the people, the food, the houses, "
    "the animals and the long winter, tell in many sentences and in order all that happens from spring to autumn, and "
    "do not stop early, because the reader wants to know each small thing that anybody there said, heard, saw or did"
).split()


@dataclass(frozen=True, slots=True)
class SpeedRound:
    """The chats and the engine of one round."""

    prompt_tokens: list[int]
    chat_first_seconds: list[float]
    chat_tokens: int
    chat_seconds: float
    chat_cpu_seconds: float
    """Of all processes of the devnet, workers included."""
    engine: EngineRun
    idle_cpu_share: float
    """The processors that the devnet used while the engine computed."""

    @property
    def tokens_per_second(self) -> float:
        """The tokens of all chats together, from the first question to the last token."""
        return self.chat_tokens / self.chat_seconds

    @property
    def share(self) -> float:
        """The part of the engine's tokens a second."""
        return self.tokens_per_second / self.engine.tokens_per_second

    @property
    def share_by_cpu(self) -> float:
        """The engine's CPU time a token, over that of the chats beyond the idle devnet's.

        Other programs on the machine hardly change it.
        """
        chats_cpu = self.chat_cpu_seconds - self.idle_cpu_share * self.chat_seconds
        return self.engine.cpu_seconds / self.engine.tokens * self.chat_tokens / chats_cpu

    @property
    def first_excess(self) -> float:
        """The seconds of the slowest chat's first token beyond the engine's 95th percentile."""
        return max(self.chat_first_seconds) - percentile_95(self.engine.first_seconds)


@dataclass(slots=True)
class Speed:
    """The outcome of all rounds, and the medians that count."""

    rounds: list[SpeedRound] = field(default_factory=list)
    opening_seconds: list[float] = field(default_factory=list)
    """Of `ogpu session open`, from its start to the seat."""
    opening_blocks: list[int] = field(default_factory=list)
    providers: list[str] = field(default_factory=list)
    tokens_wanted: int = 0
    share: float = 0.0
    first_excess: float = 0.0
    worst_share: float = 0.0
    worst_first_excess: float = 0.0
    share_by_cpu: float = 0.0


def percentile_95(times: Sequence[float]) -> float:
    """Return the nearest rank of the 95th percentile."""
    ordered = sorted(times)
    return ordered[-(-95 * len(ordered) // 100) - 1]


def failures_of(speed: Speed) -> Iterator[str]:
    """Yield every failed requirement. The median of the rounds counts, because other programs disturb single ones."""
    if len(set(speed.providers)) != 1:
        yield f"the chats have {len(set(speed.providers))} providers, and the engine has one process"
    if speed.first_excess > FIRST_SECONDS_MAX:
        yield (
            f"the slowest first token came {speed.first_excess:.2f} s after the bare engine's 95th percentile: "
            f"{FIRST_SECONDS_MAX:.0f} s at most are wanted"
        )
    if speed.share < SHARE_MIN:
        yield f"{100 * speed.share:.0f} % of the bare engine's tokens a second: {100 * SHARE_MIN:.0f} are wanted"
    for number, each in enumerate(speed.rounds, 1):
        if each.chat_tokens < TOKENS_MIN * speed.tokens_wanted:
            yield f"round {number} has {each.chat_tokens} tokens of {speed.tokens_wanted}: too few to measure"


def question_of(form: WorkloadForm, topic: str, tokens: int) -> str:
    """Return a question whose first request has so many tokens, or a few less."""
    question, words = "", [word.format(topic=topic) for word in WORDS]
    for count in range(1, len(words) + 1):
        longer = " ".join(words[:count])
        request = form.encode_chat([ChatMessage("user", longer)], 1, {}, bytes(32))
        if form.cost_in(request) > tokens:
            break
        question = longer
    return question


def measure(stage: ChatStage) -> Speed:
    """Chat in four sessions at one provider, in turns with the engine."""
    server = stage.sellers[0]
    stage.offer_places({server: CHATS})
    speed = Speed(tokens_wanted=CHATS * stage.options.tokens)
    seated = [stage.open_session() for _ in range(CHATS)]
    speed.opening_seconds = [seat.seconds for seat in seated]
    speed.opening_blocks = [seat.blocks for seat in seated]
    speed.providers = [seat.provider for seat in seated]
    with ExitStack() as stack:
        engine = stack.enter_context(BareEngine(f"{DECODER}:{stage.options.model}", CHATS))
        chats = [stack.enter_context(_chat(stage, seat, number)) for number, seat in enumerate(seated)]
        for chat in chats:
            chat.wait_until_ready()
        form = sold_sessions.model_form(stage.options.model)
        questions = [question_of(form, topic, PROMPT_TOKENS) for topic in TOPICS[:CHATS]]
        for _ in range(stage.options.rounds):
            found = _measure_round(stage, chats, seated, questions, engine)
            speed.rounds.append(found)
            stage.narrator.line(_row(found))
            questions = ["Go on with the story, and tell much more of it."] * CHATS
        for chat in chats:
            chat.quit()
    stage.close(*seated)
    shares, excesses = [each.share for each in speed.rounds], [each.first_excess for each in speed.rounds]
    speed.share, speed.worst_share = statistics.median(shares), min(shares)
    speed.share_by_cpu = statistics.median(each.share_by_cpu for each in speed.rounds)
    speed.first_excess, speed.worst_first_excess = statistics.median(excesses), max(excesses)
    return speed


def _chat(stage: ChatStage, seat: OpenedSession, number: int) -> ChatProgram:
    words = stage.chat_words(seat, stage.options.tokens, temperature="0")
    return ChatProgram(stage, sold_sessions.log_file(stage, f"speed-{number}"), *words)


def _measure_round(
    stage: ChatStage,
    chats: Sequence[ChatProgram],
    seated: Sequence[OpenedSession],
    questions: Sequence[str],
    engine: BareEngine,
) -> SpeedRound:
    """Ask all chats at once, and then the engine."""
    cpu_before = cpu_seconds(stage.devnet)
    for chat, question in zip(chats, questions, strict=True):
        chat.type(question)
    answers: list[TimedAnswer] = [chat.answer() for chat in chats]
    cpu_after = cpu_seconds(stage.devnet)
    requests = [sold_sessions.kept_session(stage, seat.session).turns[-1].request for seat in seated]
    engine_cpu_before = cpu_seconds(stage.devnet)
    bare = engine.run(requests)
    idle_cpu = cpu_seconds(stage.devnet) - engine_cpu_before
    return SpeedRound(
        prompt_tokens=[answer.tokens_in for answer in answers],
        chat_first_seconds=[answer.first_seconds for answer in answers],
        chat_tokens=sum(answer.tokens_out for answer in answers),
        chat_seconds=max(answer.ended_at for answer in answers) - min(answer.asked_at for answer in answers),
        chat_cpu_seconds=cpu_after - cpu_before,
        engine=bare,
        idle_cpu_share=idle_cpu / bare.seconds,
    )


def _row(found: SpeedRound) -> str:
    engine = found.engine
    first = f"first tokens after {_times(found.chat_first_seconds)}, bare {_times(engine.first_seconds)}"
    rate = f"{found.tokens_per_second:.1f} of {engine.tokens_per_second:.1f} bare tokens/s ({100 * found.share:.0f} %)"
    bare_cpu = f"bare {engine.cpu_seconds:.1f} s ({100 * found.share_by_cpu:.0f} %)"
    cpu = f"CPU {found.chat_cpu_seconds:.1f} s with the nodes, {bare_cpu}"
    idle = f"the nodes used {found.idle_cpu_share:.2f} processors beside the engine"
    return f"{found.prompt_tokens[0]} tokens in: {first}; {rate}; {cpu}; {idle}"


def _times(seconds: Sequence[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f} s"
