"""The resume state: there and back bit for bit; a write that is cut anywhere loses nothing."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny import tiny_config

from models.build import build_clip
from models.errors import StudioError
from train.checkpointing import POINTER, TENSORS, Facts, State, load_state, save_state
from train.distributed import World
from train.ema import Ema
from train.optim import build_optimizer
from train.settings import OptimConfig
from train.state import capture, optimizer_tensors, restore, seed_step
from train.step import StepRules, Trainer, make_trainer


def small(step: int) -> State:
    """A state whose tensors say which step they are of."""
    return State(Facts(step, counts=(step, 0)), *({name: torch.full((3,), step)} for name in TENSORS))


def step_of(run: Path) -> int:
    state = load_state(run)
    assert state is not None
    assert all(int(getattr(state, name)[name][0]) == state.facts.step for name in TENSORS)
    return state.facts.step


def trained(rule: str = "matrices") -> Trainer:
    clip = build_clip(tiny_config("differential", 40)).train()
    optimizer = build_optimizer(clip, OptimConfig(1e-2, decay=rule))  # type: ignore[arg-type]
    trainer = make_trainer(World(), clip, optimizer, StepRules(), Ema(clip, 0.9))
    image = clip.encode_image(torch.randn(2, 3, 32, 32))
    (image.sum() + clip.encode_text(torch.ones(2, 16, dtype=torch.long)).sum() * clip.logit_scale).backward()
    optimizer.step()
    assert trainer.ema is not None
    trainer.ema.update(clip)
    return trainer


@pytest.mark.parametrize("rule", ["matrices", "published"])
def test_weights_moments_and_average_come_back_bit_for_bit(tmp_path: Path, rule: str) -> None:
    trainer = trained(rule)
    save_state(tmp_path, capture(trainer, Facts(1, counts=(8, 0))))
    state = load_state(tmp_path)
    assert state is not None
    clip = build_clip(tiny_config("differential", 40), seed=5).train()
    optimizer, ema = build_optimizer(clip, OptimConfig(1e-2, decay=rule)), Ema(clip, 0.9)  # type: ignore[arg-type]
    restore(state, clip, optimizer, ema)
    assert all(torch.equal(a, b) for a, b in zip(clip.parameters(), trainer.clip.parameters(), strict=True))
    one, other = optimizer_tensors(clip, optimizer), optimizer_tensors(trainer.clip, trainer.optimizer)
    assert one.keys() == other.keys()
    assert len(one) == 3 * len(list(clip.parameters()))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert trainer.ema is not None
    assert all(torch.equal(ema.averages[name], average) for name, average in trainer.ema.averages.items())
    assert ema.updates == 1
    with pytest.raises(StudioError, match="of another model"):
        restore(state, build_clip(tiny_config("standard", 40)), optimizer, None)


def test_the_last_two_states_are_kept(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    for step in (2, 4, 6):
        save_state(tmp_path, small(step), step - 2)
        assert step_of(tmp_path) == step
    assert sorted(path.name for path in tmp_path.glob("state-*")) == ["state-000000004", "state-000000006"]
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.rglob("*.partial"))


def test_a_write_that_is_cut_at_any_byte_leaves_a_loadable_run(tmp_path: Path) -> None:
    save_state(tmp_path, small(2))
    save_state(tmp_path, small(4))
    whole = save_state(tmp_path / "next", small(6))
    names = [f"{name}.safetensors" for name in TENSORS] + ["facts.json"]
    for count, name in enumerate(names):
        content = (whole / name).read_bytes()
        for cut in range(len(content) + 1):
            folder = tmp_path / whole.name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for done in names[:count]:
                shutil.copy(whole / done, folder / done)
            (folder / name).write_bytes(content[:cut])
            # state.json still names the state before; a pointer that is half written has another name.
            (tmp_path / f"{POINTER}.tmp").write_bytes(b'{"sta')
            assert step_of(tmp_path) == 4
    save_state(tmp_path, small(6))
    assert step_of(tmp_path) == 6


def test_of_a_newest_state_that_was_damaged_the_one_before_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_state(tmp_path, small(2))
    newest = save_state(tmp_path, small(4), 2)
    (newest / "optimizer.safetensors").unlink()
    assert step_of(tmp_path) == 2
    assert "Going on from state-000000002" in capsys.readouterr().err
    # The next write keeps what was read, not what could not be.
    (save_state(tmp_path, small(6), 2) / "model.safetensors").unlink()
    assert step_of(tmp_path) == 2
    save_state(tmp_path, small(4), 2)
    assert step_of(tmp_path) == 4


@pytest.mark.parametrize("pointer", [None, "", "{}", '{"state": 4}', "[]"])
def test_without_a_readable_pointer_the_newest_complete_state_is_taken_and_none_is_deleted(
    tmp_path: Path, pointer: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (2, 4):
        save_state(tmp_path, small(step))
    (save_state(tmp_path, small(6)) / "facts.json").unlink()  # a write that was cut
    (tmp_path / POINTER).unlink()
    if pointer is not None:
        (tmp_path / POINTER).write_text(pointer)
    assert step_of(tmp_path) == 4
    assert "Going on from state-000000004" in capsys.readouterr().err
    assert len(list(tmp_path.glob("state-*"))) == 3
    save_state(tmp_path, small(5), 4)
    assert sorted(path.name[-1] for path in tmp_path.glob("state-*")) == ["4", "5", "6"]


def test_a_pointed_state_that_is_gone_is_told_and_the_one_before_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_state(tmp_path, small(2))
    shutil.rmtree(save_state(tmp_path, small(4)))
    assert step_of(tmp_path) == 2
    assert "state-000000004 is not there" in capsys.readouterr().err


def test_a_first_state_that_was_cut_never_counted(tmp_path: Path) -> None:
    (save_state(tmp_path, small(2)) / "facts.json").unlink()
    (tmp_path / POINTER).unlink()
    assert load_state(tmp_path) is None


def test_states_of_which_none_can_be_read_are_told_and_not_replaced(tmp_path: Path) -> None:
    folder = save_state(tmp_path, small(2))
    (folder / "model.safetensors").write_bytes(b"half a file")
    with pytest.raises(StudioError, match="bring one back from a copy") as told:
        load_state(tmp_path)
    assert "elete" not in str(told.value)
    assert (folder / "model.safetensors").read_bytes() == b"half a file"
    shutil.rmtree(folder)
    with pytest.raises(StudioError, match="no state up to it is there"):
        load_state(tmp_path)


def test_a_state_holds_no_pickle(tmp_path: Path) -> None:
    folder = save_state(tmp_path, capture(trained(), Facts(1)))
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    assert json.loads((folder / "facts.json").read_text())["step"] == 1


def test_random_numbers_belong_to_seed_step_and_rank() -> None:
    def drawn(*place: int) -> float:
        seed_step(*place)
        return float(torch.rand(()))

    places = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert len({drawn(*place) for place in places}) == 5
    assert drawn(0, 1, 0) == drawn(0, 1, 0)
