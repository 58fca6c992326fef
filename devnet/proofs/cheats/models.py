"""A language model, sold on a devnet by a provider that computes it wrongly: `make cheats MODEL=NAME`.

Each cheat answers single requests alone, single requests beside an honest rival, and a batch. The right answers and the
cheat's answers are computed beside the network, in this process. Every claim is checked, so each answer that differs is
found, alone by a checker and beside a rival by voters. Equal answers are no lie, and cost nobody anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.proofs.cheats.findings import CheatFindings
from devnet.proofs.cheats.unit_scenes import UnitScene
from devnet.proofs.cheats.units import CHAIN_NUMBERS, DECODER, SoldModel, play_scenes
from devnet.stage.cheating.executors import MODEL_CHEATS
from devnet.stage.network import FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from gpu_tasks.workloads.decoder_int8.quality import TEXT
from gpu_tasks.workloads.model_forms import form_named

VALIDATOR_COUNT = 6
MODEL_NAME = "smollm2-135m-instruct"
SINGLE_COUNT = 24
BATCH_REQUESTS = 4
"""Each of four requests is drawn."""
ANSWER_TOKENS = 12
COMMIT_BLOCKS = 60
"""A daemon loads the model in its first race."""
OPTIONS = {"temperature": "1", "logprobs": "yes", "chat": "no"}
"""Log-probabilities show other weights, and a temperature shows another seed."""


def scenes_of(single_count: int) -> list[UnitScene]:
    """Return the scenes of all cheats, with this number of single requests together."""
    each = max(1, single_count // (2 * len(MODEL_CHEATS)))
    return [
        scene
        for cheat in MODEL_CHEATS
        for scene in (
            UnitScene(f"{cheat} alone", f"{cheat}: {each} single requests", (cheat,), units=each),
            UnitScene(f"{cheat} raced", "as many beside an honest racer", (cheat, None), units=each),
            UnitScene(f"{cheat} batch", "a batch", (cheat,), requests=BATCH_REQUESTS),
        )
    ]


def play_cheats(stage: Stage) -> CheatFindings:
    """Sell the model, and let a provider compute it in each wrong way."""
    model = SoldModel(
        stage.options.model,
        tokens=ANSWER_TOKENS,
        allowed=ANSWER_TOKENS,
        options=OPTIONS,
        prompts=TEXT,
        commit_blocks=COMMIT_BLOCKS,
    )
    return play_scenes(stage, scenes_of(stage.options.units), model)


def figures(facts_by_scenario: Mapping[str, CheatFindings]) -> str:
    """Return the line of figures."""
    findings = [finding for facts in facts_by_scenario.values() for finding in facts.findings]
    caught: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for finding in findings:
        kind = finding.mode.rpartition(" ")[2]
        caught[kind] += finding.caught
        units[kind] += finding.units
    checks = [check for finding in findings for check in finding.checks]
    found = ", ".join(f"{caught[kind]} of {units[kind]} {kind}" for kind in units)
    right_amounts = sum(check.taken == check.expected for check in checks)
    return f"caught {found}, {right_amounts} of {len(checks)} amounts as the table says"


def _require_model(proof_run: ProofRun, _: Devnet) -> None:
    """Raise DevnetError, before any process starts, if the model is not in the store."""
    try:
        form_named(f"{DECODER}:{proof_run.options.model}")
    except LookupError as error:
        raise DevnetError(str(error), code="model_missing") from None


NETWORK = FreshDevnet(VALIDATOR_COUNT, "models", numbers=CHAIN_NUMBERS, before_start=_require_model)
PROOF = LiveProof(
    "model_cheats",
    "Compute a language model wrongly, and be found.",
    (Scenario("models", "A language model: {model}", NETWORK.open, play_cheats),),
    figures,
    (
        ProofOption("--model", MODEL_NAME, "a model of your store, by name or first digits of its id"),
        ProofOption("--units", SINGLE_COUNT, "single requests in all cheats together"),
    ),
)

if __name__ == "__main__":
    run(PROOF)
