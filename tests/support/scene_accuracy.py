"""What a model card tells of a model, measured on few scenes."""

from models.loaded import LoadedModel
from train.evaluation.labelled import one_object_scenes
from train.evaluation.zero_shot import SCENES, SEED, ZeroShotResult, classify, of_scenes


def scene_accuracy(model: LoadedModel, images: int) -> ZeroShotResult:
    """The model's zero-shot accuracy on `images` scenes, as `python -m train evaluate` draws them."""
    side = 2 * max(model.preprocess_settings.input_size)
    return of_scenes(classify(model, one_object_scenes(SEED, images, side), SCENES))
