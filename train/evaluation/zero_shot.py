"""Zero-shot classification of unseen one-object scenes over all object names (Radford et al., 2021, section 3.1)."""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from models.errors import StudioError
from models.loaded import LoadedModel
from train.scenes import OBJECT_NAMES, SceneOptions, article, describe_scene, render_scene

# Scenes of this seed are used for evaluation and never for training.
SEED = 50_021
TEMPLATE = "a photo of a {}"
_BATCH = 50


@dataclass(frozen=True)
class ZeroShotResult:
    """What was measured, and on what; accuracies are shares, the interval a 95 % bootstrap over images."""

    model: str
    images: int
    classes: int
    seed: int
    template: str
    top1: float
    top1_interval: tuple[float, float]
    top5: float


def zero_shot(model: LoadedModel, images: int = 500, seed: int = SEED) -> ZeroShotResult:
    """Classify `images` scenes that hold one object each, drawn at twice the model's size and preprocessed by it.

    Raises:
        StudioError: fewer than one image.
    """
    if images < 1:
        raise StudioError(f"{images} images cannot be classified: give 1 or more.")
    names = list(OBJECT_NAMES)
    classes = class_embeddings(model, names)
    options = SceneOptions(objects=(1, 1))
    hits = []
    for first in range(0, images, _BATCH):
        scenes = [describe_scene(seed, index, options) for index in range(first, min(images, first + _BATCH))]
        pictures = [Image.fromarray(render_scene(scene, 2 * model.preprocess_settings.size)[0]) for scene in scenes]
        pixels = torch.stack([model.preprocess(picture)[0] for picture in pictures])
        ranked = (model.encode_image(pixels, normalize=True) @ classes.T).topk(5, dim=-1).indices
        truth = torch.tensor([names.index(scene.objects[0].name) for scene in scenes])
        hits.append(ranked == truth[:, None])
    hit = torch.cat(hits)
    first_hit, any_hit = hit[:, 0].numpy(), hit.any(dim=1).numpy()
    return ZeroShotResult(
        model.name,
        images,
        len(names),
        seed,
        TEMPLATE,
        float(first_hit.mean()),
        bootstrap_interval(first_hit),
        float(any_hit.mean()),
    )


def class_embeddings(model: LoadedModel, names: list[str]) -> Tensor:
    """Unit text embeddings (classes, E) of the template filled with each name, "a" or "an" as it should be."""
    prompts = [TEMPLATE.replace("a {}", f"{article(name)} {name}") for name in names]
    return model.encode_text(model.tokenize(prompts), normalize=True)


def bootstrap_interval(hits: np.ndarray, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """The 2.5 and 97.5 percentiles of the mean over images drawn with replacement."""
    generator = np.random.default_rng(seed)
    means = hits[generator.integers(0, len(hits), (draws, len(hits)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
