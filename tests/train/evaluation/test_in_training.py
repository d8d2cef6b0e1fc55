"""An evaluation between two steps measures what the model is then, and leaves no trace."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from picture_files import labelled_folder
from tiny import tiny_config

from models.build import build_clip
from models.checkpoints import CheckpointInfo, wrap_model
from models.errors import StudioError
from models.preprocess import Preprocess
from models.tokenizer import DomainTokenizer
from train.data.config import SceneData
from train.evaluation.in_training import evaluate_in_training
from train.evaluation.protocols import (
    CaptionRetrieval,
    FolderClasses,
    Protocol,
    SceneClasses,
    SceneStudy,
    measure,
    open_task,
    shares,
)
from train.evaluation.spread import Ranks, Stopped


@pytest.fixture
def info(tokenizer: DomainTokenizer) -> CheckpointInfo:
    config = tiny_config("differential", tokenizer.vocab_size)
    return CheckpointInfo("a title", "scenes", config, Preprocess(32, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))


def test_the_log_gets_what_the_evaluation_of_the_same_weights_says(
    info: CheckpointInfo, tokenizer: DomainTokenizer, tmp_path: Path
) -> None:
    clip = build_clip(tiny_config("differential", tokenizer.vocab_size), 5).train()
    folder = labelled_folder(tmp_path, {"cat": 3, "dogs": 2})
    (folder / "cat" / "000.png").write_bytes(b"")
    protocols = [
        SceneClasses(12),
        FolderClasses(str(folder), "openai-7"),
        CaptionRetrieval(SceneData(3, 12), images=11),
    ]
    tasks = [open_task(protocol, 64) for protocol in protocols]
    line = evaluate_in_training(clip, info, tokenizer, tasks)
    wanted = {}
    again = build_clip(tiny_config("differential", tokenizer.vocab_size), 5).eval().requires_grad_(False)
    for task in tasks:
        result = measure(wrap_model(again, info, tokenizer, "x", Path()), task)
        wanted |= {f"{task.name}/{name}": share.value for name, share in shares(result).items()}
    assert {key: value for key, value in line.items() if not key.endswith("/skipped")} == wanted
    assert line[f"zero-shot/{folder}/skipped"] == 1.0
    assert f"zero-shot/{folder}/top5" not in line
    assert {"zero-shot/scenes/top1", "retrieval/scenes/text_to_image_r10"} <= line.keys()
    assert all(type(value) is float for value in line.values())


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")
@pytest.mark.parametrize("workers", [0, 2])
def test_weights_modes_gradients_and_random_numbers_stay_as_they_are(
    workers: int, info: CheckpointInfo, tokenizer: DomainTokenizer
) -> None:
    clip = build_clip(tiny_config("differential", tokenizer.vocab_size)).train()
    clip.transformer.resblocks[0].eval()  # as a frozen part would be
    clip.ln_final.requires_grad_(False)
    clip.encode_image(torch.randn(2, 3, 32, 32)).sum().backward()

    def state() -> tuple:
        modes = [part.training for part in clip.modules()]
        needs = [parameter.requires_grad for parameter in clip.parameters()]
        return modes, needs, random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()

    tensors = {**clip.state_dict(), "rng": torch.get_rng_state()}
    tensors |= {f"grad.{name}": p.grad for name, p in clip.named_parameters() if p.grad is not None}
    kept, before = {name: tensor.clone() for name, tensor in tensors.items()}, state()
    evaluate_in_training(clip, info, tokenizer, [open_task(SceneClasses(60), 32)], workers=workers)
    assert state() == before
    tensors["rng"] = torch.get_rng_state()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in kept.items())
    assert {f"grad.{name}" for name, p in clip.named_parameters() if p.grad is not None} <= kept.keys()


@pytest.mark.parametrize(
    "protocol",
    [SceneClasses(120), CaptionRetrieval(SceneData(3, 120)), SceneStudy(60, 1, 2), "folder"],
    ids=lambda protocol: type(protocol).__name__,
)
def test_an_evaluation_is_left_at_whatever_batch_somebody_asks_for_it(
    protocol: Protocol | str, info: CheckpointInfo, tokenizer: DomainTokenizer, tmp_path: Path
) -> None:
    clip = build_clip(tiny_config("differential", tokenizer.vocab_size), 5).train()
    if isinstance(protocol, str):
        protocol = FolderClasses(str(labelled_folder(tmp_path, {f"class {n}": 1 for n in range(60)})), "plain")
    task = open_task(protocol, 32)
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) == at

    at = 0
    evaluate_in_training(clip, info, tokenizer, [task], Ranks(stopped=stopped))
    places = len(asked)
    assert places >= 4
    for at in (1, 2, places // 2, places):
        asked.clear()
        with pytest.raises(Stopped):
            evaluate_in_training(clip, info, tokenizer, [task], Ranks(stopped=stopped))
        assert len(asked) == at
        assert all(part.training for part in clip.modules())


def test_modes_come_back_when_the_evaluation_fails(
    info: CheckpointInfo, tokenizer: DomainTokenizer, tmp_path: Path
) -> None:
    clip = build_clip(tiny_config("differential", tokenizer.vocab_size)).train()
    folder = labelled_folder(tmp_path, {"cat": 1, "dogs": 1})
    task = open_task(FolderClasses(str(folder), "plain"), 64)
    for path in folder.glob("*/*.png"):
        path.write_bytes(b"")
    with pytest.raises(StudioError, match="no picture could be read"):
        evaluate_in_training(clip, info, tokenizer, [task])
    assert all(part.training for part in clip.modules())
