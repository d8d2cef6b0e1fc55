"""From a config to batches: which samples, which pixels, which words, for which rank."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from models.errors import StudioError
from train.config import load_config
from train.data.batch import normalised
from train.data.scenes import scenes_preprocess, scenes_tokenizer
from train.distributed import World
from train.feed import open_data
from train.scenes import SceneOptions, describe_scene, render_scene
from train.scenes.shards import write_shards
from train.settings import SceneStream

STAGES = "stages=[{samples=40, image_size=16}, {samples=24, image_size=32, drawn=64, weights=[1, 0, 0, 0]}]"


def test_a_stream_gives_its_scenes_in_order_drawn_as_each_stage_has_them(config_file: Path) -> None:
    config = load_config(config_file, [STAGES])
    assert isinstance(config.data, SceneStream)
    data, tokenizer = open_data(config, None), scenes_tokenizer(config.data, 320, 16)
    index = 0
    for number, stage in enumerate(config.stages):
        feed, preprocess = data.stage(number, World()), scenes_preprocess(stage.image_size)
        steps = range(config.first_step(number), config.first_step(number + 1))
        for batch in feed.batches(steps):
            pixels = normalised(batch.pixels, preprocess.mean, preprocess.std)
            for row in range(8):
                scene = describe_scene(11, index, SceneOptions(weights=stage.weights))
                picture = Image.fromarray(render_scene(scene, stage.drawn or stage.image_size)[0])
                assert torch.equal(pixels[row], preprocess(picture)[0])
                assert torch.equal(batch.tokens[row], tokenizer([scene.caption])[0])
                index += 1
    assert index == 64
    assert data.record()["samples"] == 64


def test_ranks_share_the_batches_of_one_process(config_file: Path) -> None:
    data = open_data(
        load_config(config_file, ["data={scenes=3, count=50}", "stages=[{epochs=2, image_size=16}]"]), None
    )
    alone = list(data.stage(0, World()).batches(range(12)))
    both = [list(data.stage(0, World(rank, 2)).batches(range(12))) for rank in range(2)]
    for step, batch in enumerate(alone):
        halves = [both[rank][step] for rank in range(2)]
        assert torch.equal(torch.cat([half.indices for half in halves]), batch.indices)
        assert torch.equal(torch.cat([half.pixels for half in halves]), batch.pixels)
    for epoch in (alone[:6], alone[6:]):
        assert len(np.unique(np.concatenate([batch.indices for batch in epoch]))) == 48
    feed = data.stage(0, World())
    assert [feed.ends_epoch(step) for step in range(12)] == [step in (5, 11) for step in range(12)]


def test_epochs_become_steps_of_the_data_that_are_found(config_file: Path, tmp_path: Path) -> None:
    write_shards(tmp_path / "tars", 20, 1, 32)
    settings = [f'data={{tars="{tmp_path / "tars"}"}}', "model.text.vocab_size=49408", "optim.warmup_steps=0"]
    settings += ["stages=[{epochs=2.5, image_size=16}, {samples=8, image_size=32}]", "optim.warmup_epochs=1"]
    config = load_config(config_file, settings)
    assert not config.is_resolved
    data = open_data(config, tmp_path / "index")
    assert [stage.samples for stage in data.config.stages] == [40, 8]
    assert data.config.optim.warmup_steps == 2
    assert data.config.is_resolved
    assert data.stage(0, World()).view.preprocess.mean == (0.485, 0.456, 0.406)
    with pytest.raises(StudioError, match="set it to 49408"):
        open_data(load_config(config_file, [settings[0]]), None)


def test_what_does_not_fit_a_stream_is_refused(config_file: Path) -> None:
    with pytest.raises(StudioError, match="leave augment out"):
        open_data(load_config(config_file, ["augment={scale=[0.5, 1.0]}"]), None)
    with pytest.raises(StudioError, match="has no epochs"):
        load_config(config_file, ["stages=[{epochs=1, image_size=16}]"])
    with pytest.raises(StudioError, match="for scenes without end"):
        load_config(config_file, ["data={scenes=1, count=64}", "stages=[{samples=8, image_size=16, drawn=20}]"])
