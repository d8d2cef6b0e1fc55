"""Where a model sees what is named: relevance of patches by gradients, for a few scenes and the names of their objects.

It is what the page shows under Explain as it opens: the maps of the last layer, positive products alone (Chefer, Gur
and Wolf, "Generic Attention-model Explainability", ICCV 2021).
"""

from dataclasses import dataclass

from PIL import Image

from models.gradients import Choice, map_gradients
from models.loaded import LoadedModel
from models.relevance import relevance
from train.evaluation.zero_shot import TEMPLATE
from train.scenes import Scene, article, describe_scene, render_scene

PICTURES = 3
SIDE = 224  # pixels at which a figure draws a scene


@dataclass(frozen=True)
class Spoken:
    """The relevance of the patches of a scene for a text.

    Attributes:
        seed, index: of the scene.
        text: what was asked.
        cosine: the similarity of picture and text.
        rows, cols: of the grid.
        values: relevance of each patch, row by row, with spaces between; not negative, in no unit.
    """

    seed: int
    index: int
    text: str
    cosine: float
    rows: int
    cols: int
    values: str


def spoken_for(model: LoadedModel, seed: int) -> tuple[Spoken, ...]:
    """The first scenes of a seed that hold two different objects, each asked for both.

    Raises:
        StudioError: a model without a grid of patches or without a tokenizer.
    """
    found = []
    for index in scenes_with_two(seed):
        scene = describe_scene(seed, index)
        drawn, _ = render_scene(scene, 2 * max(model.preprocess_settings.input_size))
        pixels, _ = model.preprocess(Image.fromarray(drawn))
        for text in texts_of(scene):
            ids = model.tokenize(text)
            device = model.module.logit_scale.device
            run = map_gradients(model, pixels[None].to(device), ids.to(device), text=Choice(layers=()))
            assert run.vision is not None  # a study is of models with a CLS token over patches
            patches = relevance(run.vision).patches[0]
            values = " ".join(f"{value:.4g}" for value in patches.flatten().tolist())
            found.append(Spoken(seed, index, text, float(run.similarity), len(patches), patches.shape[1], values))
    return tuple(found)


def scenes_with_two(seed: int) -> list[int]:
    """The numbers of the first scenes that hold two objects of different names."""
    found, index = [], 0
    while len(found) < PICTURES:
        names = [one.name for one in describe_scene(seed, index).objects]
        if len(names) == len(set(names)) == 2:
            found.append(index)
        index += 1
    return found


def texts_of(scene: Scene) -> list[str]:
    """What is asked of a scene: the name of each object under the template of zero-shot classification."""
    return [TEMPLATE.replace("a {}", f"{article(one.name)} {one.name}") for one in scene.objects]
