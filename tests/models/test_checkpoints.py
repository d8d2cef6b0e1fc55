"""Building, saving and loading: twins that differ in attention alone, files that are checked before use."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_config

from models import LoadedModel, StudioError, available_models, load_model
from models.build import build_clip
from models.checkpoints import CheckpointInfo, load_checkpoint, save_checkpoint
from models.config import model_config
from models.diff_attention import DifferentialAttention
from models.errors import CheckpointError
from models.layout import TokenGrid
from models.positions import resize_positions
from models.tokenizer import DomainTokenizer


def test_clip_and_diffclip_of_one_seed_differ_in_nothing_but_attention() -> None:
    standard, differential = (build_clip(tiny_config(kind, 290), seed=5) for kind in ("standard", "differential"))
    shared = standard.state_dict()
    for name, tensor in differential.state_dict().items():
        if ".attn." not in name:
            assert torch.equal(tensor, shared[name]), name
    for ours, theirs in zip(
        differential.visual.transformer.resblocks, standard.visual.transformer.resblocks, strict=True
    ):
        attention = ours.attn
        assert isinstance(attention, DifferentialAttention)
        weights = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        assert torch.equal(torch.cat(weights), theirs.attn.in_proj_weight)
        assert torch.equal(attention.out_proj.weight, theirs.attn.out_proj.weight)


def test_initial_weights_are_a_function_of_the_seed() -> None:
    config = tiny_config("differential", 290)
    first, again, other = (build_clip(config, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["visual.conv1.weight"], other["visual.conv1.weight"])


def saved(model: LoadedModel, folder: Path) -> Path:
    info = CheckpointInfo(model.title, model.domain, model.config, model.preprocess_settings)
    save_checkpoint(folder, model.module, info, model.tokenizer)
    return folder


def test_a_saved_checkpoint_loads_back_to_half_precision_with_lambda_and_norms_exact(
    model: LoadedModel, tmp_path: Path
) -> None:
    again = load_model(saved(model, tmp_path / "mine"))
    assert again.name == "mine"
    assert again.config == model.config
    assert again.preprocess_settings == model.preprocess_settings
    before, after = model.module.state_dict(), again.module.state_dict()
    for name, tensor in before.items():
        if any(part in name for part in ("lambda_", "diff_norm", "ln_", "logit_scale")):
            assert torch.equal(after[name], tensor), name
        else:
            assert torch.equal(after[name], tensor.half().float()), name
    assert again.vision.lambdas() == model.vision.lambdas()


def test_exporting_twice_gives_the_same_bytes(model: LoadedModel, tmp_path: Path) -> None:
    first, second = saved(model, tmp_path / "a"), saved(load_checkpoint(tmp_path / "a"), tmp_path / "b")
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes()


def test_weights_that_do_not_fit_are_named_before_loading(model: LoadedModel, tmp_path: Path) -> None:
    folder = saved(model, tmp_path / "mine")
    state = load_file(folder / "model.safetensors")
    broken = {name: tensor for name, tensor in state.items() if name != "ln_final.weight"}
    broken["extra.weight"] = torch.zeros(2)
    broken["text_projection"] = torch.zeros(3, 3)
    save_file(broken, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="do not fit a model with vision") as caught:
        load_checkpoint(folder)
    for part in ("weights are missing (ln_final", "are unknown (extra", "text_projection is (3, 3), not"):
        assert part in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_finite_numbers_are_refused_by_name(
    clip: LoadedModel, tmp_path: Path, value: float
) -> None:
    folder = saved(clip, tmp_path / "mine")
    state = load_file(folder / "model.safetensors")
    for names in (["visual.proj"], ["visual.proj", "ln_final.bias"]):
        for name in names:
            state[name].view(-1)[-1] = value
        save_file(state, folder / "model.safetensors")
        with pytest.raises(CheckpointError, match=r"infinite or no numbers, in .*(visual.proj|ln_final.bias)"):
            load_checkpoint(folder)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer"),
        (b"\xff" * 64, "neither safetensors nor"),
    ],
)
def test_a_file_that_is_no_safetensors_file_gets_a_sentence(
    clip: LoadedModel, tmp_path: Path, content: bytes, sentence: str
) -> None:
    folder = saved(clip, tmp_path / "mine")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=sentence):
        load_checkpoint(folder)


def test_half_a_file_gets_a_sentence(clip: LoadedModel, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "mine")
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match="is incomplete"):
        load_checkpoint(folder)


def test_a_wrong_key_in_the_config_names_the_nearest(clip: LoadedModel, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "mine")
    config = json.loads((folder / "config.json").read_text())
    config["model"]["vision"]["patchsize"] = config["model"]["vision"].pop("patch_size")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="did you mean 'patch_size'"):
        load_checkpoint(folder)


def test_a_tokenizer_of_another_size_is_refused(clip: LoadedModel, tokenizer: DomainTokenizer, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "mine")
    DomainTokenizer(tokenizer.bpe, tokenizer.words, 12).save(folder / "tokenizer.json")
    with pytest.raises(CheckpointError, match="context 12"):
        load_checkpoint(folder)


def test_an_unknown_name_gets_the_names_there_are() -> None:
    with pytest.raises(CheckpointError, match="did you mean 'clip-scenes'"):
        load_model("clip-scene")
    with pytest.raises(CheckpointError, match="diffclip-scenes"):
        load_model("no/such/folder")


def test_the_shipped_models_are_listed_and_load() -> None:
    assert {"clip-scenes", "diffclip-scenes"} <= set(available_models())
    for name in ("clip-scenes", "diffclip-scenes"):
        model = load_model(name)
        weights = model.folder / "model.safetensors"
        assert weights.stat().st_size < 10_000_000
        kinds = {n: t.dtype for n, t in load_file(weights).items()}
        assert kinds["logit_scale"] == torch.float32
        assert kinds["visual.conv1.weight"] == torch.float16
        assert all(kind == torch.float32 for n, kind in kinds.items() if "lambda_" in n or "ln_" in n)
        assert model.vision.differential == (name == "diffclip-scenes")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"vision": {"head_width": 32}}, "must be even"),
        ({"vision": {"head_width": 7}}, "not a multiple of 7"),
        ({"vision": {"image_size": 30}}, "not a multiple of 8"),
        ({"text": {"heads": 3}}, "choose 2 or 4"),
        ({"vision": {"attention": "differntial"}}, "did you mean 'differential'"),
        ({"lambda_init": {"rule": "depht"}}, "did you mean 'depth'"),
        ({"vision": {"width": "wide"}}, "must be of type int"),
        ({"embed_dim": True}, "must be of type int"),
    ],
)
def test_a_config_that_cannot_work_is_refused_with_the_reason(change: dict[str, dict], sentence: str) -> None:
    plain = tiny_config("differential", 290).to_dict()
    for table, values in change.items():
        plain[table] = {**plain[table], **values} if isinstance(values, dict) else values
    with pytest.raises(StudioError, match=sentence):
        model_config(plain)


def test_lambda_init_by_depth_reaches_every_layer() -> None:
    plain = tiny_config("differential", 290).to_dict()
    plain["lambda_init"] = {"rule": "depth"}
    clip = build_clip(model_config(plain))
    inits = [block.attn.lambda_init for block in clip.visual.transformer.resblocks]
    assert inits == pytest.approx([0.2, 0.35551, 0.47071], abs=1e-4)


def test_positions_of_the_same_grid_stay_and_the_prefix_is_never_touched() -> None:
    positions = torch.randn(1 + 16, 6)
    old, new = TokenGrid(1, 4, 4), TokenGrid(1, 7, 5)
    assert torch.equal(resize_positions(positions, old, old), positions)
    resized = resize_positions(positions, old, new)
    assert resized.shape == (36, 6)
    assert torch.equal(resized[0], positions[0])
    flat = torch.cat([positions[:1], torch.full((16, 6), 2.0)])
    torch.testing.assert_close(resize_positions(flat, old, new)[1:], torch.full((35, 6), 2.0))
