"""Two processes are one: everything here runs in one pair of gloo processes, and the tests look at what it left."""

import math
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pairs import farthest, gradients, part, random_samples, weights, wide_clip
from ranks import run_ranks
from torch import Tensor

from models.errors import StudioError
from train.accumulate import Encoder, backward, parallel
from train.distributed import World, any_rank, from_all, from_main, gather_with_gradient, open_world, resolve_device
from train.finite import NonFiniteError, Skip
from train.loss import GATHERINGS, Gathering, contrastive_loss
from train.step import StepRules, make_trainer, train_step

BATCH, INVALID = 16, (3,)


def one_gradient(world: World, gathering: Gathering, accumulation: int) -> dict[str, Any]:
    """Loss and gradients of the global batch, of which this rank holds its half."""
    clip = wide_clip()
    own = part(random_samples(BATCH, INVALID), world.rank * BATCH // world.size, (world.rank + 1) * BATCH // world.size)
    encoder = Encoder(world, parallel(world, clip))
    done = backward(encoder, GATHERINGS[gathering], tuple(own.chunks(accumulation)))
    return {"loss": float(done.loss), "valid": int(done.valid), "gradients": gradients(clip)}


def three_steps(world: World) -> dict[str, Tensor]:
    """The weights after three steps that are clipped, the first of which starts from rank 0's weights."""
    clip = wide_clip()
    if world.rank:
        with torch.no_grad():
            clip.logit_scale.add_(1.0)
    optimizer = torch.optim.SGD(clip.parameters(), lr=0.5, momentum=0.9)
    trainer = make_trainer(world, clip, optimizer, StepRules(accumulation=2, clip_norm=0.5))
    for step in range(3):
        samples = random_samples(BATCH, seed=step)
        half = BATCH // world.size
        train_step(trainer, part(samples, world.rank * half, (world.rank + 1) * half), step + 1)
    return weights(clip)


def broken_steps(world: World) -> dict[str, Any]:
    """What happens when rank 1 alone has a number that is not finite."""
    clip = wide_clip()
    before = weights(clip)
    optimizer = torch.optim.AdamW(clip.parameters(), lr=1e-3)
    samples = random_samples(BATCH // 2, seed=world.rank)
    results: dict[str, Any] = {}

    def attempt(name: str, trainer: Any, skipped: int = 0) -> None:
        try:
            results[name] = train_step(trainer, samples, 7, skipped).skipped
        except NonFiniteError as error:
            results[name] = f"stopped: {error}"

    trainer = make_trainer(world, clip, optimizer, StepRules(accumulation=2))
    skipping = make_trainer(world, clip, optimizer, StepRules(non_finite=Skip(1)))
    block = clip.visual.transformer.resblocks[1].mlp  # type: ignore[union-attr]
    if world.rank == 1:
        handle = block.register_forward_hook(lambda *args: args[2] * math.nan)
    attempt("stop", trainer)
    attempt("skip", skipping)
    results["untouched"] = farthest(before, weights(clip))
    attempt("too many", skipping, 1)
    if world.rank == 1:
        handle.remove()
        weight = clip.transformer.resblocks[0].mlp.c_proj.weight
        inner = weight.register_hook(lambda gradient: gradient * math.inf)
    attempt("gradient", trainer)
    if world.rank == 1:
        inner.remove()
    attempt("healed", trainer)
    return results


def stopped_together(world: World) -> dict[str, Any]:
    """A signal reaches rank 1 alone, in its third step of many."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    steps = 0
    try:
        while not any_rank(world, bool(received)):
            steps += 1
            if world.rank == 1 and steps == 3:
                os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    return {"steps": steps, "received": len(received)}


def messages(world: World) -> dict[str, Any]:
    """What the collectives answer, and what they say to batches of different sizes."""
    own = torch.full((2, 3), float(world.rank + 1), requires_grad=True)
    gathered = gather_with_gradient(world, own)
    # Rank r asks for (r + 1) times the sum of rank 0's rows and 10 times that of rank 1's.
    weight = torch.tensor([1.0, 1.0, 10.0, 10.0])[:, None] * (world.rank + 1)
    (gathered * weight).sum().backward()
    unequal = random_samples(4 + world.rank)
    try:
        backward(Encoder(world, parallel(world, wide_clip())), GATHERINGS["full"], (unequal,))
        refused = ""
    except StudioError as error:
        refused = str(error)
    return {
        "all": from_all(world, world.rank * 10),
        "main": from_main(world, f"from {world.rank}"),
        "gathered": gathered.detach(),
        "gradient": own.grad,
        "refused": refused,
    }


def both_ranks(rank: int, folder: Path) -> None:
    began = time.monotonic()
    warnings.simplefilter("error", FutureWarning)
    with open_world("cpu") as world:
        assert (world.rank, world.size, world.is_main) == (rank, 2, rank == 0)
        result = {
            "full": one_gradient(world, "full", 1),
            "full in parts": one_gradient(world, "full", 4),
            "published": one_gradient(world, "published", 1),
            "published in parts": one_gradient(world, "published", 4),
            "steps": three_steps(world),
            "broken": broken_steps(world),
            "stopped": stopped_together(world),
            "messages": messages(world),
        }
    torch.save(result | {"seconds": time.monotonic() - began}, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(both_ranks, 2, folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


def full_batch() -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of one graph over the valid samples, without any of the code for many."""
    clip, samples = wide_clip(), random_samples(BATCH, INVALID)
    image = clip.encode_image(samples.pixels[samples.valid], normalize=True)
    text = clip.encode_text(samples.tokens[samples.valid], normalize=True)
    loss = contrastive_loss(image, text, clip.logit_scale)
    loss.backward()
    return loss.item(), gradients(clip)


@pytest.mark.parametrize("name", ["full", "full in parts"])
def test_two_ranks_have_the_loss_and_every_gradient_of_one_full_batch(ranks: list[dict[str, Any]], name: str) -> None:
    loss, expected = full_batch()
    for rank in ranks:
        assert rank[name]["valid"] == BATCH - len(INVALID)
        assert abs(rank[name]["loss"] - loss) < 1e-10
        assert farthest(rank[name]["gradients"], expected) < 1e-10


@pytest.mark.parametrize("name", ["published", "published in parts"])
def test_the_loss_that_is_told_is_that_of_the_global_batch_whatever_gradient_is_followed(
    ranks: list[dict[str, Any]], name: str
) -> None:
    # One rank has more valid samples than the other, so a mean of the ranks' means is another number.
    assert len({sum(own * BATCH // 2 <= index < (own + 1) * BATCH // 2 for index in INVALID) for own in range(2)}) == 2
    for rank in ranks:
        assert abs(rank[name]["loss"] - full_batch()[0]) < 1e-10


@pytest.mark.parametrize("name", ["published", "published in parts"])
def test_the_published_gradient_lacks_the_side_of_the_keys(ranks: list[dict[str, Any]], name: str) -> None:
    clip, samples = wide_clip(), random_samples(BATCH)
    image = clip.encode_image(samples.pixels, normalize=True)
    text = clip.encode_text(samples.tokens, normalize=True)
    scale, kept = clip.logit_scale.exp(), [i for i in range(BATCH) if i not in INVALID]
    losses = []
    for half in (range(8), range(8, 16)):
        own = [i for i in half if i in kept]
        target = torch.tensor([kept.index(i) for i in own])
        to_text = F.cross_entropy(scale * image[own] @ text[kept].detach().T, target)
        to_image = F.cross_entropy(scale * text[own] @ image[kept].detach().T, target)
        losses.append((to_text + to_image) / 2)
    loss = (losses[0] + losses[1]) / 2
    loss.backward()
    expected, full = gradients(clip), full_batch()[1]
    for rank in ranks:
        assert farthest(rank[name]["gradients"], expected) < 1e-10
    assert farthest(expected, full) > 1e-3


def test_weights_are_bit_equal_on_both_ranks_after_three_steps_and_those_of_one_process(
    ranks: list[dict[str, Any]],
) -> None:
    first, second = (rank["steps"] for rank in ranks)
    assert any("lambda_q1" in name for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert farthest(first, three_steps(World())) < 1e-10
    assert farthest(first, weights(wide_clip())) > 1e-3


def test_what_is_not_finite_on_one_rank_ends_all_ranks_with_one_sentence_that_names_the_layer(
    ranks: list[dict[str, Any]],
) -> None:
    first, second = (rank["broken"] for rank in ranks)
    assert first == second
    place = "visual.transformer.resblocks.1.mlp (vision block 1) is not finite on rank 1"
    assert first["stop"].startswith(f"stopped: The loss of step 7 is nan, the output of {place}")
    assert first["skip"] == f"The loss of step 7 is nan, the output of {place}"
    assert first["untouched"] == 0.0
    assert "after 1 skipped in a row" in first["too many"]
    assert first["gradient"].startswith("stopped: The gradient norm of step 7 is ")
    assert "transformer.resblocks.0.mlp.c_proj.weight (text block 0) is not finite" in first["gradient"]
    assert first["healed"] == ""


def test_a_signal_to_one_rank_is_known_to_both_at_the_same_step(ranks: list[dict[str, Any]]) -> None:
    first, second = (rank["stopped"] for rank in ranks)
    assert first == {"steps": 3, "received": 0}
    assert second == {"steps": 3, "received": 1}


def test_collectives_keep_the_order_of_ranks_and_gather_sums_what_all_ranks_ask(ranks: list[dict[str, Any]]) -> None:
    for rank, left in enumerate(rank["messages"] for rank in ranks):
        assert left["all"] == [0, 10]
        assert left["main"] == "from 0"
        assert left["gathered"].tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 2
        # 1 and 2 times 1 for rank 0, 1 and 2 times 10 for rank 1.
        assert left["gradient"].tolist() == [[(3.0, 30.0)[rank]] * 3] * 2


def test_batches_of_different_sizes_are_refused_on_both_ranks(ranks: list[dict[str, Any]]) -> None:
    assert all("batches of 4, 5 samples" in rank["messages"]["refused"] for rank in ranks)
    assert all(rank["seconds"] < 100 for rank in ranks)


def test_without_torchrun_there_is_a_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with open_world("cpu") as world:
        assert world == World()
        assert any_rank(world, True)
        assert not any_rank(world, False)


def test_half_an_environment_and_unknown_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(StudioError, match="not WORLD_SIZE, LOCAL_RANK"), open_world("cpu"):
        pass
    with pytest.raises(StudioError, match="not known to PyTorch"):
        resolve_device("gpu", 0)
    for device in ("mps", "meta", "xla"):
        with pytest.raises(StudioError, match=f"'{device}' is not one that training knows: use auto, cpu or cuda"):
            resolve_device(device, 0)
    with pytest.raises(StudioError, match=r"needs GPU 99"):
        resolve_device("cuda", 99)
