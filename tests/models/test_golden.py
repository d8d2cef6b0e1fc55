"""Our models against tensors that the published DiffCLIP and SLIP code computed on tiny models.

`tests/golden/*.safetensors` hold weights under their published names, inputs, the output of every attention
module, and the maps A1, A2 and lambda. The files are loaded as a person would load them, by `load_model`.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from foreign import golden as read_golden
from foreign import written

from models import LoadedModel, attention_maps, load_model, record

BLOCKS = {"vision": "visual.blocks", "text": "transformer.resblocks"}
SETTINGS = {"diffclip_published_tiny": {}, "clip_slip_tiny": {"heads": (4, 4)}}
# LayerNorm's epsilon of (vision, text) in the code that computed the tensors.
EPSILON = {"diffclip_published_tiny": (1e-5, 1e-5), "clip_slip_tiny": (1e-6, 1e-5)}
TOKENS = ("visual.cls_token", "visual.pos_embed", "visual.patch_embed.proj.bias")
WORDS = ("token_embedding.weight", "positional_embedding")


@dataclass(frozen=True)
class Golden:
    model: LoadedModel
    tensors: dict[str, torch.Tensor]

    def encode(self, tower: str) -> torch.Tensor:
        if tower == "vision":
            return self.model.encode_image(self.tensors["in.image"])
        return self.model.encode_text(self.tensors["in.text"])


@pytest.fixture(scope="module", params=list(SETTINGS))
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    weights, tensors = read_golden(request.param)
    path: Path = tmp_path_factory.mktemp("golden") / "model.safetensors"
    return Golden(load_model(written(weights, path), **SETTINGS[request.param]), tensors)


def test_embeddings_and_logit_scale_equal_the_published_ones(golden: Golden) -> None:
    torch.testing.assert_close(golden.encode("vision"), golden.tensors["out.image_embed"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(golden.encode("text"), golden.tensors["out.text_embed"], rtol=1e-5, atol=1e-5)
    # What the published forward gives is the exponential, the factor on the cosine.
    assert golden.model.logit_scale == pytest.approx(float(golden.tensors["out.logit_scale"]), rel=1e-6)


@pytest.mark.parametrize("name", ["vision", "text"])
def test_maps_lambda_and_attention_outputs_equal_the_published_ones(golden: Golden, name: str) -> None:
    tower = golden.model.vision if name == "vision" else golden.model.text
    with record(tower) as recording:
        golden.encode(name)
    for layer in range(tower.layers):
        key = f"{BLOCKS[name]}.{layer}.attn"
        maps = attention_maps(recording[layer])
        torch.testing.assert_close(maps.a1, golden.tensors[f"maps.{key}.a1"], rtol=1e-5, atol=1e-5)
        output = recording._layers[layer].output
        torch.testing.assert_close(output, golden.tensors[f"attn.{key}.out"], rtol=1e-5, atol=1e-5)
        if tower.differential:
            assert maps.a2 is not None
            assert maps.lam is not None
            torch.testing.assert_close(maps.a2, golden.tensors[f"maps.{key}.a2"], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(maps.lam.flatten()[0], golden.tensors[f"maps.{key}.lam"])
        else:
            assert maps.a2 is None


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("name", list(SETTINGS))
def test_only_the_right_epsilon_meets_the_published_embeddings(name: str, tmp_path: Path) -> None:
    weights, tensors = read_golden(name)
    path, right = written(weights, tmp_path / "model.safetensors"), EPSILON[name]
    for vision in (1e-6, 1e-5):
        for text in (1e-6, 1e-5):
            model = load_model(path, norm_eps=(vision, text), **SETTINGS[name])
            image = apart(model.encode_image(tensors["in.image"]), tensors["out.image_embed"])
            caption = apart(model.encode_text(tensors["in.text"]), tensors["out.text_embed"])
            assert image < 3e-6 if vision == right[0] else image > 3e-5
            assert caption < 3e-6 if text == right[1] else caption > 3e-5


@pytest.mark.parametrize("name", list(SETTINGS))
def test_a_wrong_epsilon_moves_the_embedding_of_an_input_of_low_variance(name: str, tmp_path: Path) -> None:
    """Tokens a hundred times smaller, of a picture without content: their variance is that of the epsilon."""
    weights, tensors = read_golden(name)
    faint = {key: value / 100 if key in (*TOKENS, *WORDS) else value for key, value in weights.items()}
    path, right = written(faint, tmp_path / "model.safetensors"), EPSILON[name]
    swapped = tuple(1e-5 if epsilon == 1e-6 else 1e-6 for epsilon in right)
    assumed, given, wrong = (
        load_model(path, **SETTINGS[name], **settings) for settings in ({}, {"norm_eps": right}, {"norm_eps": swapped})
    )
    grey, ids = torch.zeros_like(tensors["in.image"]), tensors["in.text"]
    assert torch.equal(given.encode_image(grey), assumed.encode_image(grey))
    assert torch.equal(given.encode_text(ids), assumed.encode_text(ids))
    assert apart(wrong.encode_image(grey), given.encode_image(grey)) > 0.2
    assert apart(wrong.encode_text(ids), given.encode_text(ids)) > 0.2
