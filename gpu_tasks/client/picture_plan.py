"""What of a picture is left to buy, on which terms, and what that costs: known before anything is sent.

Always: a tile that stands on the chain and was not found wrong is not posted again; a round that broke off goes on as
it was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.client.funds import spendable
from gpu_tasks.client.offers import form_of, require_judges, require_owners
from gpu_tasks.client.picture_record import PictureRecord, PictureRound
from gpu_tasks.client.picture_tiles import PictureSaleError, tiles_to_post
from gpu_tasks.client.posting import PostingCost, Wish, check_terms, cost_of
from gpu_tasks.client.posting_record import PostingRecord
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.services import Service
from gpu_tasks.workloads.pictures import PictureOrder, PictureOrderError, picture_form, tile_requests
from wallet.client import ChainClient, Payer
from wallet.session import note


@dataclass(frozen=True, slots=True)
class TileWish:
    """What a customer asks of every tile; the price, in grains, is for a whole one."""

    service: int
    racers: int
    price_max: int


@dataclass(frozen=True, slots=True)
class PicturePlan:
    """What is posted now: a round of tiles, what all tiles ask, and by what the purchase is known again."""

    identity: tuple[bytes, ...]
    part: PictureRound
    """Without tiles where nothing is left to post."""
    earlier_rounds: int
    requests: list[bytes]
    cost: PostingCost
    """Of what no earlier try sent."""
    available: int
    """Grains that the account can spend."""

    @property
    def posting_identity(self) -> tuple[bytes, ...]:
        """By what the posting of this round is known again."""
        return _posting(self.identity, self.earlier_rounds, self.part)


async def selling_service(client: ChainClient, number: int | None) -> tuple[int, Service]:
    """The service that tiles are bought from; PictureSaleError says which there are."""
    services = await market_reads.services(client)
    form = picture_form()
    selling = [name for name, each in services.items() if each.is_open and each.terms.workload == form.workload_id]
    if number is None and len(selling) == 1:
        number = selling[0]
    if not selling:
        offered = f"`ogpu create-service --workload {form.name}` offers one"
        raise PictureSaleError(
            f"no service here sells {form.name}; {offered}, and providers decide whether they serve it"
        )
    if number not in selling:
        have = ", ".join(map(str, selling)) or "none"
        raise PictureSaleError(f"name a service that sells {form.name} with --service; open here: {have}")
    form_of(number, services[number])
    return number, services[number]


async def picture_plan(
    client: ChainClient, payer: Payer, order: PictureOrder, sold: Service, wish: TileWish, postings: Path, tip: int, *,
    is_anew: bool, price_from: str = "--price",
) -> PicturePlan:  # fmt: skip
    """What is left to post of the picture, on which terms, and what that costs."""
    try:
        requests = tile_requests(order, sold.terms.tokens_max)
    except PictureOrderError as error:
        raise PictureSaleError(f"{error}, with --tiles") from None
    form = picture_form()
    most = max(form.cost_asked(request) for request in requests)
    identity = (client.genesis_hash, payer.account, *(line.encode() for line in order.lines))
    record = PictureRecord.peek(postings, identity)
    earlier = [] if is_anew else record.rounds
    part, known = None if is_anew else record.begun, 0
    rounds = len(earlier) - (part is not None)
    if part is not None:
        note("an earlier try broke off while it posted tiles: they are posted as it was asked for then")
    else:
        left = await tiles_to_post(client, record, len(requests)) if earlier else list(range(len(requests)))
        part = PictureRound(left, wish.service, most, wish.racers, wish.price_max)
    if part.tiles:
        check_terms(sold, form, Wish(part.service, part.cost_max, {}, part.racers, part.rate_max), price_from)
        known = 0 if is_anew else len(PostingRecord.peek(postings, *_posting(identity, rounds, part)))
    missing = len(part.tiles) - known
    asked = [part.unit(b"")] * missing
    cost = (
        await cost_of(client, payer, part.service, part.racers, asked, tip) if missing else PostingCost(0, 0, 0, 0, 0)
    )
    return PicturePlan(identity, part, rounds, requests, cost, await spendable(client, payer.account))


async def require_takers(client: ChainClient, payer: Payer, plan: PicturePlan, *, is_anyway: bool) -> None:
    """ServiceError where nobody could judge what is posted, or too few could race for it now."""
    if not plan.cost.units:
        return
    part = plan.part
    await require_judges(client, part.service, payer.account, part.price_max)
    if not is_anyway:
        await require_owners(client, part.service, payer.account, racers=part.racers, rate_max=part.rate_max)


def _posting(identity: tuple[bytes, ...], rounds: int, part: PictureRound) -> tuple[bytes, ...]:
    """What makes this round's posting another than those before it."""
    return *identity, rounds.to_bytes(8, "little"), *part.identity
