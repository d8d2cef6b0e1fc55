"""load_model: every kind of source, exports that load back bit-equal, a Hub cache laid out by hand, no network."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign import golden, json_file, native, transformers_names, written
from hub_cache import lay_out
from PIL import Image
from safetensors.torch import save_file

from models import LoadedModel, describe, load_model, record
from models.checkpoints import export_checkpoint
from models.config import OpenClipConfig
from models.errors import CheckpointError
from models.layout import TokenGrid, TokenSequence
from models.open_clip_zoo import architecture, build_open_clip, pretrained

VIT = {"embed_dim": 24, "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 16}}
TEXT = {"context_length": 12, "vocab_size": 40, "width": 32, "heads": 2, "layers": 2}
# Tiny models of the families of open_clip's zoo, as their open_clip_config.json describes them.
FAMILIES: dict[str, dict[str, Any]] = {
    "vit": {**VIT, "text_cfg": TEXT},
    "vit-quickgelu": {**VIT, "text_cfg": TEXT, "quick_gelu": True},
    "custom-text": {**VIT, "text_cfg": {**TEXT, "pool_type": "eos", "eos_id": 39}, "custom_text": True},
    "map-pool": {
        "embed_dim": 96,
        "init_logit_bias": -10,
        "custom_text": True,
        "vision_cfg": {
            "image_size": 32,
            "timm_model_name": "test_vit3",
            "timm_pool": "map",
            "timm_proj": "none",
        },
        "text_cfg": {
            **TEXT,
            "no_causal_mask": True,
            "pool_type": "last",
            "proj_bias": True,
            "hf_tokenizer_name": "nobody/nothing",
        },
    },
    "registers": {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "timm_model_name": "test_vit2", "timm_pool": "avg", "timm_proj": "linear"},
        "text_cfg": TEXT,
    },
    "resnet": {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 16},
        "text_cfg": TEXT,
    },
}


def folder_of(family: str, path: Path, transform: dict[str, Any] | None = None) -> Path:
    """A folder as open_clip's repositories are: weights and open_clip_config.json."""
    config = FAMILIES[family]
    module = build_open_clip(OpenClipConfig(config, family))
    generator = torch.Generator().manual_seed(1)
    state = {
        key: value + 0.02 * torch.randn(value.shape, generator=generator) if value.is_floating_point() else value
        for key, value in module.state_dict().items()
    }
    state["logit_scale"] = torch.tensor(2.0)
    path.mkdir(parents=True, exist_ok=True)
    save_file({key: value.contiguous() for key, value in state.items()}, path / "open_clip_model.safetensors")
    plain = {"model_cfg": config, "preprocess_cfg": transform or {"mean": [0.5] * 3, "std": [0.5] * 3}}
    (path / "open_clip_config.json").write_text(json.dumps(plain))
    return path


def outputs(model: LoadedModel) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    height, width = model.preprocess_settings.input_size
    ids = torch.randint(1, model.tokenizer.vocab_size - 1, (2, model.tokenizer.context), generator=generator)
    ids[:, 5] = model.tokenizer.vocab_size - 1
    return model.encode_image(torch.randn(2, 3, height, width, generator=generator)), model.encode_text(ids)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_open_clip_loads_exports_and_loads_back_bit_equal(family: str, tmp_path: Path) -> None:
    model = load_model(folder_of(family, tmp_path / "source"))
    again = load_model(export_checkpoint(model, tmp_path / "copy"))
    before, after = model.module.state_dict(), again.module.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    for ours, theirs in zip(outputs(model), outputs(again), strict=True):
        assert torch.equal(ours, theirs)
    assert describe(again)["picture"] == describe(model)["picture"]
    assert again.tokenizer.rule == model.tokenizer.rule


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"resnet"}))
def test_both_towers_of_every_family_are_recorded(family: str, tmp_path: Path) -> None:
    model = load_model(folder_of(family, tmp_path / "source"))
    with record(model.vision) as vision, record(model.text) as text:
        outputs(model)
    assert len(list(vision)) == model.vision.layers
    assert len(list(text)) == model.text.layers


def test_a_pooling_head_has_no_cls_and_its_text_no_causal_mask(tmp_path: Path) -> None:
    model = load_model(folder_of("map-pool", tmp_path / "source"))
    assert isinstance(model.vision.layout, TokenGrid)
    assert (model.vision.layout.prefix, model.vision.layout.registers, model.vision.layout.cls) == (1, 1, None)
    assert model.vision.pooled
    assert model.vision.layer_name(model.vision.layers - 1) == "pool"
    assert isinstance(model.text.layout, TokenSequence)
    assert (model.text.layout.causal, model.text.layout.pool) == (False, "last")
    with pytest.raises(ValueError, match="no tokenizer here"):
        model.tokenize("a cat")


def test_a_tokenizer_beside_the_weights_is_used_and_exported(tmp_path: Path) -> None:
    folder = folder_of("map-pool", tmp_path / "source")
    json_file(folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text('{"pad_token": "</s>"}')
    model = load_model(folder)
    assert model.tokenize("a cat").tolist() == [[2, 3, 1] + [1] * 9]
    again = load_model(export_checkpoint(model, tmp_path / "copy"))
    assert torch.equal(again.tokenize("a dog"), model.tokenize("a dog"))


def test_a_resnet_loads_and_says_why_there_are_no_maps(tmp_path: Path) -> None:
    model = load_model(folder_of("resnet", tmp_path / "source"))
    assert model.vision.layers == 0
    assert "ModifiedResNet" in describe(model)["vision"]
    with pytest.raises(ValueError, match="no self-attention over patches"), record(model.vision):
        pass
    with record(model.text) as recording:
        outputs(model)
    assert len(list(recording)) == 2


def test_the_transform_of_the_repository_is_taken(tmp_path: Path) -> None:
    transform = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "resize_mode": "squash", "interpolation": "bilinear"}
    model = load_model(folder_of("vit", tmp_path / "source", transform))
    settings = model.preprocess_settings
    assert (settings.mean, settings.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert (settings.mode, settings.interpolation, settings.input_size) == ("squash", "bilinear", (32, 32))
    with pytest.raises(CheckpointError, match="choose 'shortest' or 'squash'"):
        load_model(folder_of("vit", tmp_path / "other", {"resize_mode": "longest"}))


@pytest.mark.parametrize("name", ["vit", "map-pool", "registers"])
def test_position_embeddings_are_resampled_to_another_grid(name: str, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path / "source")
    plain = load_model(folder)
    assert isinstance(plain.vision.layout, TokenGrid)
    own = (plain.vision.layout.rows, plain.vision.layout.cols)
    same = load_model(folder, grid=own)
    assert all(torch.equal(a, b) for a, b in zip(outputs(plain), outputs(same), strict=True))
    wide = load_model(folder, grid=(own[0] + 1, own[1] + 3))
    assert isinstance(wide.vision.layout, TokenGrid)
    assert (wide.vision.layout.rows, wide.vision.layout.cols) == (own[0] + 1, own[1] + 3)
    with record(wide.vision) as recording:
        pixels, geometry = wide.preprocess(Image.new("RGB", (90, 60)))
        wide.encode_image(pixels[None])
    assert pixels.shape[1:] == geometry.input
    assert recording[0].k.shape[-2] == wide.vision.layout.tokens
    again = load_model(export_checkpoint(wide, tmp_path / "copy"))
    assert all(torch.equal(a, b) for a, b in zip(outputs(wide), outputs(again), strict=True))


def test_own_folders_take_another_grid_and_other_settings(diffclip: LoadedModel, tmp_path: Path) -> None:
    folder = export_checkpoint(diffclip, tmp_path / "mine")
    wide = load_model(folder, grid=(3, 6), norm_eps=(1e-3, 1e-5), mean=(0.1, 0.1, 0.1), lambda_init=0.3)
    assert wide.preprocess_settings.input_size == (24, 48)
    assert wide.vision.lambda_init == (0.3,) * wide.vision.layers
    assert describe(wide)["vision blocks"].endswith("0.001")
    assert describe(wide)["text blocks"].endswith("1e-05")
    assert len(wide.origin.given) == 4
    again = load_model(export_checkpoint(wide, tmp_path / "again"))
    assert all(torch.equal(a, b) for a, b in zip(outputs(wide), outputs(again), strict=True))


def test_exporting_over_something_is_refused(clip: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(CheckpointError, match="choose a new folder"):
        export_checkpoint(clip, tmp_path)
    assert (tmp_path / "there").read_text() == "mine"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"head": (2, 2)}, "did you mean 'heads'"),
        ({"heads": 3}, "must be a list"),
        ({"grid": (0, 4)}, "at least 1"),
        ({"activation": ("relu", "gelu")}, "choose gelu, quick_gelu"),
        ({"heads": (9, 9)}, "the checkpoint says that it has"),
        ({"lambda_init": 0.5}, "neither tower has one"),
    ],
)
def test_settings_that_cannot_be_get_a_sentence(
    settings: dict[str, Any], sentence: str, clip: LoadedModel, tmp_path: Path
) -> None:
    folder = export_checkpoint(clip, tmp_path / "mine")
    with pytest.raises(ValueError, match=sentence):
        load_model(folder, **settings)


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hub cache, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def test_a_repository_of_ours_loads_from_the_cache(hub: Path, diffclip: LoadedModel) -> None:
    snapshot = lay_out(hub, "someone/diffclip-scenes")
    snapshot.rmdir()
    export_checkpoint(diffclip, snapshot)
    model = load_model("hf-hub:someone/diffclip-scenes")
    assert model.name == "diffclip-scenes"
    assert all(torch.equal(a, b) for a, b in zip(outputs(model), outputs(diffclip), strict=True))
    assert model.tokenize("a red apple").shape == (1, 16)


def test_the_published_repository_loads_from_the_cache_at_a_revision(hub: Path) -> None:
    weights, rest = golden("diffclip_published_tiny")
    snapshot = lay_out(hub, "hammh0a/DiffCLIP_ViTB16_CC12M", "1" * 40, "v1")
    torch.save({"state_dict": weights, "epoch": 1}, snapshot / "checkpoint_best.pt")
    model = load_model("hf-hub:hammh0a/DiffCLIP_ViTB16_CC12M@v1")
    torch.testing.assert_close(model.encode_image(rest["in.image"]), rest["out.image_embed"], rtol=1e-5, atol=1e-5)


def transformers_folder(folder: Path, activation: str = "gelu") -> Path:
    """Weights under the Transformers library's name with its two configs beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    written(transformers_names(native()), folder / "model.safetensors")
    tower = {"hidden_act": activation, "num_attention_heads": 4, "layer_norm_eps": 1e-6}
    plain = {"model_type": "clip", "architectures": ["CLIPModel"], "vision_config": tower, "text_config": tower}
    (folder / "config.json").write_text(json.dumps(plain))
    pictures = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "resample": 2}
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    return folder


def test_what_the_configs_of_transformers_say_is_taken_and_not_assumed(tmp_path: Path) -> None:
    model = load_model(transformers_folder(tmp_path / "theirs"))
    assert model.origin.family == "CLIP, Transformers' names"
    assert describe(model)["vision blocks"] == "GELU, LayerNorm epsilon 1e-06"
    assert (model.vision.heads, model.text.heads) == (4, 4)
    assert model.preprocess_settings.mean == (0.1, 0.2, 0.3)
    assert model.preprocess_settings.interpolation == "bilinear"
    assert not any("GELU" in sentence or "epsilon" in sentence for sentence in model.origin.assumed)
    given = load_model(tmp_path / "theirs", activation=("quick_gelu", "gelu"))
    assert describe(given)["vision blocks"].startswith("QuickGELU")
    with pytest.raises(CheckpointError, match="no activation of CLIP"):
        load_model(transformers_folder(tmp_path / "other", "relu"))


def test_a_repository_with_both_kinds_is_read_by_its_open_clip_config(hub: Path, tmp_path: Path) -> None:
    for place in (lay_out(hub, "org/both"), tmp_path / "both"):
        folder_of("vit", transformers_folder(place))
    for source in ("hf-hub:org/both", tmp_path / "both"):
        model = load_model(source)
        assert model.origin.family == "open_clip"
        assert model.preprocess_settings.mean == (0.5, 0.5, 0.5)


def test_a_repository_of_transformers_loads_from_the_cache(hub: Path) -> None:
    transformers_folder(lay_out(hub, "org/theirs"))
    assert load_model("hf-hub:org/theirs").origin.family == "CLIP, Transformers' names"


def test_weights_of_ours_without_their_config_are_refused_and_with_it_loaded(
    hub: Path, diffclip: LoadedModel, tmp_path: Path
) -> None:
    folder = export_checkpoint(diffclip, tmp_path / "mine")
    assert load_model(folder / "model.safetensors").preprocess_settings == diffclip.preprocess_settings
    alone = lay_out(hub, "someone/half")
    (alone / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match="hf download someone/half"):
        load_model("hf-hub:someone/half")
    with pytest.raises(CheckpointError, match="copy the whole folder"):
        load_model(alone / "model.safetensors")


def test_positions_of_another_size_than_the_config_names_are_resampled_once(tmp_path: Path) -> None:
    folder = folder_of("vit", tmp_path / "source")
    wide = {**FAMILIES["vit"], "vision_cfg": {**FAMILIES["vit"]["vision_cfg"], "image_size": 64}}
    state = build_open_clip(OpenClipConfig(wide)).state_dict()
    save_file({key: value.contiguous() for key, value in state.items()}, folder / "open_clip_model.safetensors")
    small, large = load_model(folder), load_model(folder, grid=(8, 8))
    assert torch.equal(large.module.visual.positional_embedding, state["visual.positional_embedding"])
    assert small.module.visual.positional_embedding.shape == (17, 64)
    assert any("resampled from (8, 8) to (4, 4)" in sentence for sentence in small.origin.assumed)


def test_a_transform_of_another_size_than_the_model_is_refused(clip: LoadedModel, tmp_path: Path) -> None:
    folder = export_checkpoint(clip, tmp_path / "mine")
    config = json.loads((folder / "config.json").read_text())
    config["preprocess"]["size"] = 100
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"scaled to \(100, 100\) pixels, the model takes \(32, 32\)"):
        load_model(folder)


def test_a_place_that_cannot_be_written_gets_a_sentence(clip: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        export_checkpoint(clip, str(tmp_path / "file" / "below"))


@pytest.mark.slow
def test_a_tag_of_open_clip_loads_from_the_cache(hub: Path) -> None:
    config = architecture("ViT-B-32")
    source = pretrained(config, "openai")
    snapshot = lay_out(hub, source.repository)
    state = {key: value.half().contiguous() for key, value in build_open_clip(config).state_dict().items()}
    save_file(state, snapshot / "open_clip_model.safetensors")
    model = load_model("open_clip:ViT-B-32/openai")
    assert "QuickGELU" in describe(model)["vision blocks"]
    assert model.tokenize("a cat").shape == (1, 77)
    assert all(torch.equal(value, state[key].float()) for key, value in model.module.state_dict().items())


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("hf-hub:nobody/nothing", "run `hf download nobody/nothing`"),
        ("hf-hub:org/a--b", "not a name that the Hub allows"),
        ("hf-hub:hammh0a/DiffCLIP_ViTB16_CC12M", "run `hf download hammh0a/DiffCLIP_ViTB16_CC12M`"),
        ("~nobody-here/x.pt", "cannot be looked at"),
        ("x" * 400, "cannot be looked at|neither a shipped model"),
        ("hf-hub:nobody/nothing@v2", "--revision v2"),
        ("hf-hub:nothing", "is not a Hub repository"),
        ("hf-hub:../..", "is not a Hub repository"),
        ("open_clip:ViT-B-33/openai", "did you mean 'ViT-B-32'"),
        ("open_clip:ViT-B-32", "lacks its weights"),
        ("open_clip:ViT-B-32/opnai", "did you mean 'openai'"),
        ("open_clip:ViT-B-32/openai", "hf download timm/vit_base_patch32_clip_224.openai`"),
        ("no/such/file.pt", "neither a shipped model nor a file"),
    ],
)
def test_what_cannot_be_found_gets_one_sentence_with_what_to_do(source: str, sentence: str, hub: Path) -> None:
    with pytest.raises(CheckpointError, match=sentence) as caught:
        load_model(source)
    assert "\n" not in str(caught.value)


def test_a_file_for_an_architecture_of_open_clip_is_held_to_it(tmp_path: Path) -> None:
    path = written(native(), tmp_path / "mine.safetensors")
    with pytest.raises(CheckpointError, match=r"do not fit a model with ViT-S-32.*have another shape|are missing"):
        load_model(f"open_clip:ViT-S-32/{path}")


def test_a_folder_with_a_file_of_another_name_names_it(tmp_path: Path) -> None:
    written(native(), tmp_path / "epoch_3.safetensors")
    with pytest.raises(CheckpointError, match=r"but epoch_3\.safetensors: load such a file by its own path"):
        load_model(tmp_path)
    assert load_model(tmp_path / "epoch_3.safetensors").name == "epoch_3"


def test_a_folder_without_weights_says_which_names_it_looks_for(tmp_path: Path) -> None:
    folder = folder_of("vit", tmp_path / "source")
    (folder / "open_clip_model.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"holds a config but no weights: copy one of open_clip_model\.safetensors"
    ):
        load_model(folder)
