"""What two processes must agree on, and what may not keep one of them waiting, by one pair of gloo processes."""

import signal
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from ranks import next_group, run_ranks
from stopping import Signalling, signal_at_first_measured_batch

from models import LoadedModel, load_model
from models.errors import StudioError
from train.checkpointing import load_state
from train.config import RunConfig, load_config
from train.data.config import TarData
from train.data.open import open_source
from train.distributed import gather, open_world
from train.evaluation.evaluate import evaluate
from train.evaluation.protocols import SceneClasses
from train.evaluation.retrieval import Retrieval, retrieve
from train.evaluation.spread import ALONE, Ranks
from train.feed import Data, tokenizer_of
from train.logbook import read_log
from train.loop import fit
from train.scenes.shards import write_shards
from train.together import agree, each, main_alone, main_first

PLAIN = ["stages=[{samples=32, image_size=16}]", "log.probe_every=0"]
UNEVEN = ["stages=[{epochs=2, image_size=16}]", "batch_size=4", "log.probe_every=0", "skip={share=0.0}"]


def message_of(act: Any) -> str:
    """What the act raises, or nothing."""
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def in_group(*args: Any, **more: Any) -> Path:
    """`fit` with a process group of its own."""
    next_group()
    return fit(*args, **more)


def fail(rank: int, failing: int, error: Exception) -> int:
    if rank == failing:
        raise error
    return rank


def one_after_another(rank: int) -> dict[str, Any]:
    """A rank that takes longer than the others wait for; errors of one."""
    found: dict[str, Any] = {}
    next_group()
    with open_world("cpu", timedelta(seconds=5)) as world:
        began = time.monotonic()
        main_alone(world, lambda: time.sleep(8), every=0.5)
        found["waited"] = time.monotonic() - began
        found["first"] = main_first(world, lambda: rank)
        found["not first"] = main_first(world, lambda: None if rank == 0 else fail(rank, 1, StudioError("opened")))
        found["not second"] = main_first(world, lambda: None if rank == 1 else rank)
        found["a fault"] = message_of(lambda: main_alone(world, lambda: fail(0, 0, ZeroDivisionError("by zero"))))
        found["a refusal"] = message_of(lambda: main_alone(world, lambda: fail(0, 0, StudioError("no"))))
        found["of the second"] = message_of(lambda: main_first(world, lambda: fail(rank, 1, StudioError("not here"))))
        found["each"] = message_of(lambda: each(world, lambda: fail(rank, 1, StudioError("not mine"))))
        found["agreed"] = message_of(lambda: agree(world, [1], "differs"))
        found["differs"] = message_of(lambda: agree(world, [rank], "differs"))
        found["still together"] = each(world, lambda: rank)
    return found


def refusals(rank: int, config: Path, folder: Path) -> dict[str, str]:
    """Other data on each machine, another folder on each, and a state that cannot be saved."""
    found = {}
    tars = [f'data={{tars="{folder / f"tars{rank}"}"}}', "model.text.vocab_size=49408"]
    found["data"] = message_of(lambda: in_group(load_config(config, [*PLAIN, *tars]), folder / "data" / "run"))
    own = folder / f"machine{rank}" / "run"
    in_group(load_config(config, [*PLAIN, "stop_after=2"]), own)
    found["folder"] = message_of(lambda: in_group(load_config(config, PLAIN), own))
    blocked = folder / "blocked"

    def block(step: int) -> None:
        if rank == 0 and step == 1:
            (blocked / "state-000000002").write_text("a file where a folder is to be")

    (folder / "unlogged" / "log.jsonl").mkdir(parents=True, exist_ok=True)
    # Written by rank 0 alone.
    (folder / "unlogged" / "config.json").write_text((folder / "machine0" / "run" / "config.json").read_text())
    found["log"] = message_of(lambda: in_group(load_config(config, PLAIN), folder / "unlogged"))
    missing = [*PLAIN, "evaluation={of=[{folder='" + str(folder / f"classes{rank}") + "'}]}"]
    found["classes"] = message_of(lambda: in_group(load_config(config, missing), folder / "measures"))
    found["evaluate"] = message_of(lambda: evaluated(Path("clip-scenes") if rank else folder / "nowhere"))
    found["save"] = message_of(
        lambda: in_group(load_config(config, [*PLAIN, "save_steps=2"]), blocked, after_step=block)
    )
    return found


def evaluated(model: Path) -> None:
    """`evaluate` with a process group of its own."""
    next_group()
    evaluate([str(model)], SceneClasses(4), 0, "cpu", None)


def opened_by(rank: int, config: Path) -> Any:
    """The tars of a config with the words of scenes; on rank 1, the first read brings a signal."""
    words = tokenizer_of(load_config(config))

    def opened(settings: RunConfig, cache: Path | None) -> Data:
        source = open_source(settings.data, 16, cache)  # type: ignore[arg-type]
        return Data(settings, words, Signalling(source, signal.SIGTERM) if rank == 1 else source)  # type: ignore[arg-type]

    return opened


def stops(rank: int, config: Path, folder: Path) -> dict[str, Any]:
    """A signal to rank 1 alone, in its first batch and in a measurement."""
    tars = f'data={{tars="{folder / "uneven"}"}}'
    in_group(load_config(config, [*PLAIN, tars]), folder / "first", opened_by(rank, config))
    measured = [*PLAIN, "evaluation={of=[{scenes=240}], every=2}"]
    with signal_at_first_measured_batch(signal.SIGTERM) if rank == 1 else nullcontext([]) as batches:
        in_group(load_config(config, measured), folder / "measured")
    return {"batches": len(batches)}


def uneven(config: Path, folder: Path) -> Retrieval:
    """Shards of 9, 7 and 1 samples, trained on and measured with: 17 samples in batches of 4 by two processes."""
    tars = f'{{tars="{folder / "uneven"}"}}'
    settings = [*UNEVEN, f"data={tars}", "model.text.vocab_size=49408", f"evaluation={{of=[{{retrieval={tars}}}]}}"]
    checkpoint = in_group(load_config(config, [*settings, "workers=1"]), folder / "both")
    next_group()
    with open_world("cpu") as world:
        return measured_with(
            folder, load_model(str(checkpoint)), Ranks(world.rank, 2, lambda part: gather(world, part))
        )


def measured_with(folder: Path, model: LoadedModel, ranks: Ranks) -> Retrieval:
    return retrieve(model, open_source(TarData(str(folder / "uneven")), 16), np.arange(17), ranks)


def both_ranks(rank: int, config: Path, folder: Path) -> None:
    results = {
        "refusals": refusals(rank, config, folder),
        "stops": stops(rank, config, folder),
        "uneven": uneven(config, folder),
        "one after another": one_after_another(rank),
    }
    torch.save(results, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    from run_toml import TOML

    folder = tmp_path_factory.mktemp("pair")
    (folder / "tiny.toml").write_text(TOML)
    for name, lengths in (("tars0", [16]), ("tars1", [15]), ("uneven", [9, 7, 1])):
        for number, length in enumerate(lengths):
            (shard,) = write_shards(folder / "part", length, number, 16)
            (folder / name).mkdir(exist_ok=True)
            shard.rename(folder / name / f"{number:05d}.tar")
    # Rank 1 lacks a folder of classes that rank 0 has.
    for name in ("cat", "dog"):
        (folder / "classes0" / name).mkdir(parents=True)
        Image.new("RGB", (16, 16)).save(folder / "classes0" / name / "0.png")
    run_ranks(both_ranks, 2, folder / "tiny.toml", folder, seconds=300)
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


def test_rank_0_may_take_longer_than_the_others_wait(pair: tuple[Path, list[dict[str, Any]]]) -> None:
    for result in pair[1]:
        assert result["one after another"]["waited"] > 7


def test_what_fails_on_one_rank_fails_on_all_and_they_stay_together(pair: tuple[Path, list[dict[str, Any]]]) -> None:
    first, second = (result["one after another"] for result in pair[1])
    assert (first["first"], second["first"]) == (0, 1)
    assert first["a fault"] == "ZeroDivisionError: by zero"
    assert second["a fault"].startswith("StudioError: Process 0 failed (ZeroDivisionError: by zero)")
    for found in (first, second):
        assert found["not first"] is None
        assert found["not second"] is None
        assert found["a refusal"] == "StudioError: no"
        assert found["of the second"] == "StudioError: not here"
        assert found["each"] == "StudioError: not mine"
        assert found["agreed"] == ""
        assert found["differs"] == "StudioError: differs"
    assert (first["still together"], second["still together"]) == (0, 1)


def test_other_data_on_each_machine_are_refused_before_anything_is_written(
    pair: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, results = pair
    for result in results:
        assert "see different data" in result["refusals"]["data"]
        assert "bring the same files to all machines" in result["refusals"]["data"]
    assert not (folder / "data" / "run").exists()


def test_a_folder_that_machines_do_not_share_is_refused_when_a_run_goes_on(
    pair: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, results = pair
    for result in results:
        assert "the folder must be one that all machines share" in result["refusals"]["folder"]
    assert len(read_log(folder / "machine0" / "run" / "log.jsonl")) == 2


def test_a_state_that_rank_0_cannot_save_ends_both(pair: tuple[Path, list[dict[str, Any]]]) -> None:
    for result in pair[1]:
        assert "state-000000002 cannot be written" in result["refusals"]["save"]


def test_a_log_data_or_a_model_that_one_rank_cannot_open_end_both_with_a_sentence(
    pair: tuple[Path, list[dict[str, Any]]],
) -> None:
    for result in pair[1]:
        told = result["refusals"]
        for name in ("log", "classes", "evaluate"):
            assert told[name].startswith(("StudioError: ", "CheckpointError: ")), (name, told[name])
        assert "log.jsonl" in told["log"]
        assert "classes1" in told["classes"]
        assert "nowhere" in told["evaluate"]


def test_a_signal_to_one_rank_in_its_first_batch_ends_both_after_that_step(
    pair: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, _ = pair
    state = load_state(folder / "first")
    assert state is not None
    assert state.facts.step == len(read_log(folder / "first" / "log.jsonl")) == 1


def test_a_signal_to_one_rank_in_a_measurement_drops_it_on_both(pair: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, results = pair
    state = load_state(folder / "measured")
    assert state is not None
    assert state.facts.step == len(read_log(folder / "measured" / "log.jsonl")) == 2
    assert read_log(folder / "measured" / "evaluation.jsonl") == []
    assert results[1]["stops"]["batches"] == 1  # of three


def test_uneven_shards_and_a_last_batch_that_is_not_whole_end_for_both_and_every_sample_counts_once(
    pair: tuple[Path, list[dict[str, Any]]],
) -> None:
    folder, results = pair
    lines = read_log(folder / "both" / "log.jsonl")
    assert [line["valid"] for line in lines] == [4] * 8  # 17 samples are 4 batches of 4, twice
    state = load_state(folder / "both")
    assert state is not None
    assert state.facts.counts[0] == 32
    alone = measured_with(folder, load_model(str(folder / "both" / "checkpoint")), ALONE)
    assert alone.images == alone.captions == 17
    assert results[0]["uneven"] == results[1]["uneven"] == alone
    (measured,) = read_log(folder / "both" / "evaluation.jsonl")
    assert any(name.endswith("/image_to_text_r10") for name in measured)
