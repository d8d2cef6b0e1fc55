"""The control of an explanation: the same method on the model run with A2 shuffled over the patches in every layer.

Only the vision tower has patches to shuffle, so only the picture's side is explained again.
"""

from dataclasses import replace

import torch
from torch import Tensor

from models import StudioError
from models.intervention import intervene
from studio.attribution import Steps, drained
from studio.explaining import Explanation, Scores, Shuffled, picture_scores, relevance_scores
from studio.methods import Method, Relevance
from studio.shuffled_runs import shuffled_edits
from studio.similarity import pair_of


def explain_shuffled(explanation: Explanation, pixels: Tensor, method: Method) -> Steps[Explanation]:
    """The explanation with its control, of a preprocessed picture (3, height, width); yields passes as they are made.

    Raises:
        StudioError: a vision tower that subtracts nothing.
    """
    model, runs = explanation.look.model, []
    for edits in shuffled_edits(model.vision):
        with torch.no_grad(), model.lock, intervene(model.vision, edits):
            embedding = model.encode_image(pixels[None])
        yield 1
        pair = replace(pair_of(model, pixels, explanation.prompt, embedding), edits=edits)
        yield 1
        try:
            if isinstance(method, Relevance):
                picture, _ = relevance_scores(pair, method)
                yield 2
            else:
                found: list[Scores] = []
                yield from drained(picture_scores(pair, method), found)
                picture = found[0]
        except StudioError as error:
            picture = Scores(None, True, message=str(error))
        runs.append(Shuffled(pair.cosine, picture))
    return replace(explanation, shuffled=tuple(runs))
