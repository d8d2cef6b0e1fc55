"""Foreign state dicts: recognised by their content, loaded strictly, with what was assumed said aloud."""

from pathlib import Path

import pytest
import torch
from foreign import golden, native, transformers_names, written
from PIL import Image
from tiny import tiny_config

from models import describe, load_model, record
from models.build import build_clip
from models.checkpoints import export_checkpoint
from models.errors import CheckpointError
from models.formats import recognise
from models.overrides import Overrides
from models.shapes import mlp_ratio_of


def test_a_published_diffclip_file_loads_by_its_path_alone(tmp_path: Path) -> None:
    weights, rest = golden("diffclip_published_tiny")
    path = tmp_path / "checkpoint_best.pt"
    torch.save({"epoch": 3, "state_dict": {f"module.{key}": value for key, value in weights.items()}}, path)
    model = load_model(path)
    torch.testing.assert_close(model.encode_image(rest["in.image"]), rest["out.image_embed"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.encode_text(rest["in.text"]), rest["out.text_embed"], rtol=1e-5, atol=1e-5)
    assert model.origin.family == "DiffCLIP, published layout"
    assert any("'module.'" in note for note in model.origin.notes)
    assert any("'state_dict'" in note for note in model.origin.notes)
    assert any("lambda_init 0.8" in sentence for sentence in model.origin.assumed)


def test_a_slip_clip_needs_its_heads_where_they_are_not_64_wide(tmp_path: Path) -> None:
    weights, rest = golden("clip_slip_tiny")
    path = written(weights, tmp_path / "clip.safetensors")
    with pytest.raises(CheckpointError, match=r"give heads=\(vision, text\)"):
        load_model(written({**weights, "ln_final.weight": torch.ones(32)}, tmp_path / "narrow.safetensors"))
    model = load_model(path, heads=(4, 4))
    torch.testing.assert_close(model.encode_image(rest["in.image"]), rest["out.image_embed"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.encode_text(rest["in.text"]), rest["out.text_embed"], rtol=1e-5, atol=1e-5)
    assert describe(model)["vision blocks"] == "GELU, LayerNorm epsilon 1e-06"
    assert describe(model)["text blocks"] == "QuickGELU, LayerNorm epsilon 1e-05"


def test_a_baseline_and_a_diffclip_record_side_by_side(tmp_path: Path) -> None:
    for name, heads in (("diffclip_published_tiny", None), ("clip_slip_tiny", (4, 4))):
        weights, rest = golden(name)
        model = load_model(written(weights, tmp_path / f"{name}.safetensors"), heads=heads)
        with record(model.vision) as recording:
            model.encode_image(rest["in.image"])
        assert [projections.lam is not None for projections in recording] == [heads is None] * 3


def test_heads_that_contradict_the_lambda_vectors_are_refused(tmp_path: Path) -> None:
    path = written(golden("diffclip_published_tiny")[0], tmp_path / "diffclip.safetensors")
    with pytest.raises(CheckpointError, match="say 4 raw heads"):
        load_model(path, heads=(2, 4))


@pytest.mark.parametrize("kind", ["standard", "differential"])
@pytest.mark.parametrize("prefix", ["", "text."])
def test_open_clip_state_dicts_load_with_either_spelling_of_the_text_tower(
    kind: str, prefix: str, tmp_path: Path
) -> None:
    state = native(kind)
    named = {
        (key if key.startswith(("visual.", "logit_scale")) else f"{prefix}{key}"): value for key, value in state.items()
    }
    model = load_model(written(named, tmp_path / "model.safetensors"))
    assert all(torch.equal(value, state[key]) for key, value in model.module.state_dict().items())
    assert model.vision.differential == (kind == "differential")
    assert (model.vision.heads, model.text.heads) == ((1, 1) if kind == "differential" else (2, 2))


def test_openai_files_get_quick_gelu_and_the_others_are_told_of_it(tmp_path: Path) -> None:
    state = native()
    numbers = {name: torch.tensor(32) for name in ("input_resolution", "context_length", "vocab_size")}
    openai = load_model(written({**state, **numbers}, tmp_path / "openai.safetensors"))
    plain = load_model(written(state, tmp_path / "plain.safetensors"))
    given = load_model(tmp_path / "plain.safetensors", activation=("quick_gelu", "quick_gelu"))
    assert "QuickGELU" in describe(openai)["vision blocks"]
    assert describe(plain)["vision blocks"].startswith("GELU")
    assert any("quick_gelu" in sentence for sentence in plain.origin.assumed)
    assert not any("GELU" in sentence for sentence in given.origin.assumed)
    assert given.origin.given == ("activation = ('quick_gelu', 'quick_gelu')",)
    pixels = torch.randn(1, 3, 32, 32)
    assert torch.equal(openai.encode_image(pixels), given.encode_image(pixels))
    assert not torch.equal(openai.encode_image(pixels), plain.encode_image(pixels))


def test_transformers_names_are_read_as_the_same_model(tmp_path: Path) -> None:
    state = native()
    renamed = transformers_names(state)
    renamed["text_model.embeddings.position_ids"] = torch.arange(12)[None]
    model = load_model(written(renamed, tmp_path / "model.safetensors"))
    assert all(torch.equal(value, state[key]) for key, value in model.module.state_dict().items())
    assert "QuickGELU" in describe(model)["text blocks"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s.pop("ln_final.bias"), r"1 of \d+ weights are missing \(ln_final.*ln_final.bias"),
        (lambda s: [s.pop(k) for k in list(s) if k.startswith("visual.transformer.resblocks.0.")], "block 0"),
        (lambda s: s.update({"visual.extra": torch.zeros(2)}), "are unknown"),
        (lambda s: [s.pop(k) for k in list(s) if k.startswith("visual.")], "no CLIP of a known layout"),
        (lambda s: s.update({"logit_scale": torch.tensor(100.0)}), "already exponentiated"),
        (lambda s: s.update({"visual.positional_embedding": torch.zeros(19, 128)}), "neither 19 nor 18 is a square"),
        (lambda s: s.update({"visual.transformer.resblocks.x.a": torch.zeros(2)}), "are unknown"),
        (lambda s: s.update({"ln_final.weight": s["ln_final.weight"].to(torch.int8)}), "holds whole numbers"),
        (lambda s: s.update({"visual.positional_embedding": torch.zeros(16, 128)}), "no CLS token"),
        (lambda s: s.update({"visual.layer1.0.conv1.weight": torch.zeros(1)}), "open_clip:RN50/"),
    ],
)
def test_a_state_dict_that_does_not_fit_is_told_and_never_used(change, sentence: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    state = native()
    change(state)
    with pytest.raises(CheckpointError, match=sentence):
        load_model(written(state, tmp_path / "model.safetensors"))


def test_a_misfit_says_what_was_detected(tmp_path: Path) -> None:
    state = native("differential")
    state.pop("text_projection")
    with pytest.raises(CheckpointError) as caught:
        load_model(written(state, tmp_path / "model.safetensors"))
    for part in ("vision differential", "width 128", "2 layers", "patch 8", "grid 4 x 4", "vocabulary 40"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s, key: s.pop(key), r"1 of \d+ weights are missing \(visual.*0.attn.lambda_q1"),
        (lambda s, key: s.update({key: torch.zeros(3)}), r"^visual.*0.attn.lambda_q1 has 3 entries.*width of 128"),
        (lambda s, key: s.update({key: torch.zeros(0)}), r"lambda_q1 has 0 entries"),
    ],
)
def test_a_lambda_vector_that_is_missing_or_of_another_length_is_named(change, sentence: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    state = native("differential")
    change(state, "visual.transformer.resblocks.0.attn.lambda_q1")
    with pytest.raises(CheckpointError, match=sentence):
        load_model(written(state, tmp_path / "model.safetensors"))


def test_a_scale_of_shape_one_becomes_a_scalar(tmp_path: Path) -> None:
    state = native()
    state["logit_scale"] = torch.tensor([2.5])
    model = load_model(written(state, tmp_path / "model.safetensors"))
    assert model.module.logit_scale.shape == ()
    assert model.logit_scale == pytest.approx(12.182494)


@pytest.mark.parametrize(("count", "grid"), [(197, (14, 14)), (50, (7, 7)), (577, (24, 24)), (26, (5, 5))])
def test_the_grid_is_read_from_a_square_number_behind_a_cls_token(count: int, grid: tuple[int, int]) -> None:
    state = native()
    state["visual.positional_embedding"] = torch.zeros(count, 128)
    assert recognise(state, Overrides(), "x").config.vision.grid == grid


def test_a_grid_that_is_no_square_can_be_given(tmp_path: Path) -> None:
    state = native()
    state["visual.positional_embedding"] = torch.randn(1 + 3 * 5, 128)
    path = written(state, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="no CLS token"):
        load_model(path)
    with pytest.raises(CheckpointError, match="makes 16 patches and a CLS token"):
        load_model(path, file_grid=(4, 4))
    model = load_model(path, file_grid=(3, 5))
    assert torch.equal(model.module.visual.positional_embedding, state["visual.positional_embedding"])
    assert model.preprocess_settings.input_size == (24, 40)
    assert model.encode_image(torch.randn(1, 3, 24, 40)).shape == (1, 24)


def test_lambda_init_given_by_depth_changes_lambda_and_output(tmp_path: Path) -> None:
    path = written(golden("diffclip_published_tiny")[0], tmp_path / "diffclip.safetensors")
    constant, depth = load_model(path), load_model(path, lambda_init="depth")
    assert depth.vision.lambda_init == pytest.approx((0.2, 0.35551, 0.47071), abs=1e-4)
    assert constant.vision.lambda_init == (0.8, 0.8, 0.8)
    pixels = torch.randn(1, 3, 32, 32)
    assert not torch.allclose(constant.encode_image(pixels), depth.encode_image(pixels), atol=1e-3)
    with pytest.raises(CheckpointError, match="give a number, or 'depth'"):
        load_model(path, lambda_init="deep")
    with pytest.raises(CheckpointError, match="neither tower has one"):
        load_model(written(native(), tmp_path / "clip.safetensors"), lambda_init=0.5)


def test_tiny_own_state_dicts_are_recognised_too(tmp_path: Path) -> None:
    state = build_clip(tiny_config("differential", 290), 1).state_dict()
    model = load_model(written(state, tmp_path / "model.safetensors"))
    assert (model.vision.heads, model.text.heads) == (2, 2)
    assert all(torch.equal(value, state[key]) for key, value in model.module.state_dict().items())


def test_published_files_get_slips_transform_and_the_demos_squash_by_name(tmp_path: Path) -> None:
    path = written(golden("diffclip_published_tiny")[0], tmp_path / "diffclip.safetensors")
    picture = Image.effect_noise((640, 480), 90).convert("RGB")
    slip, demo = load_model(path), load_model(path, resize="squash")
    for model in (slip, demo):
        assert model.preprocess_settings.mean == (0.485, 0.456, 0.406)
        assert model.preprocess_settings.std == (0.229, 0.224, 0.225)
        assert model.preprocess_settings.interpolation == "bilinear"
    (cropped, seen), (squashed, whole) = slip.preprocess(picture), demo.preprocess(picture)
    assert not torch.allclose(cropped, squashed)
    assert seen.seen_box != whole.seen_box
    assert any("squash" in sentence for sentence in slip.origin.assumed)
    assert not any("squash" in sentence for sentence in demo.origin.assumed)


def test_a_grid_of_as_many_patches_is_resampled_like_any_other_and_once(tmp_path: Path) -> None:
    weights, _ = golden("diffclip_published_tiny")
    path = written(weights, tmp_path / "diffclip.safetensors")
    plain, long = load_model(path), load_model(path, grid=(1, 16))
    exported = load_model(export_checkpoint(plain, tmp_path / "mine"), grid=(1, 16))
    positions = long.module.visual.trunk.pos_embed
    assert torch.equal(positions, exported.module.visual.trunk.pos_embed)
    assert not torch.allclose(positions, plain.module.visual.trunk.pos_embed, atol=0.1)
    assert torch.equal(positions[:, :1], plain.module.visual.trunk.pos_embed[:, :1])
    assert any("square grid of 4 x 4" in sentence for sentence in plain.origin.assumed)


@pytest.mark.parametrize("heads", [(0, 4), (60, 4), (3, 4), (4, 5)])
def test_heads_that_do_not_divide_the_width_are_refused(heads: tuple[int, int], tmp_path: Path) -> None:
    path = written(golden("clip_slip_tiny")[0], tmp_path / "clip.safetensors")
    with pytest.raises(CheckpointError, match="heads do not divide"):
        load_model(path, heads=heads)


def test_only_what_was_given_is_no_longer_assumed(tmp_path: Path) -> None:
    path = written(native(), tmp_path / "clip.safetensors")
    sentences = load_model(path, mean=(0.5, 0.5, 0.5), resize="squash").origin.assumed
    assert any("std" in sentence for sentence in sentences)
    assert any("bicubic" in sentence for sentence in sentences)
    assert not any("mean" in sentence or "centre crop" in sentence for sentence in sentences)


@pytest.mark.parametrize(("hidden", "width"), [(176, 240), (336, 816), (1024, 256), (4304, 1152)])
def test_the_mlp_is_built_as_wide_as_its_weights(hidden: int, width: int) -> None:
    assert int(width * mlp_ratio_of(hidden, width)) == hidden


def test_averaged_weights_that_are_not_read_are_told(tmp_path: Path) -> None:
    state = native()
    torch.save({"state_dict": state, "state_dict_ema": state, "epoch": 3}, tmp_path / "run.pt")
    notes = load_model(tmp_path / "run.pt").origin.notes
    assert any("not read: " in note and "ema" in note for note in notes)
