"""Published ways to read dense features out of a frozen CLIP, as edits of its last layer; no training in any of them.

What they share, and what is not in a preset: patch tokens go through the model's own final norm and projection into
the joint space, CLS is a key but is not read out, and scores are scaled by d ** -0.5. Position embeddings are resized
as the model's loader does it, a picture is seen in one piece and not in sliding windows, and nothing is refined
afterwards; published numbers differ in all three.
"""

from dataclasses import dataclass

from models.errors import StudioError
from models.intervention.edits import DropFFN, DropResidual, Edit, Identity, Neighbourhood, UseSource
from models.plain import nearest


@dataclass(frozen=True)
class Preset:
    """One way to read dense features out.

    Attributes:
        name: how it is asked for.
        title: how a person reads it.
        description: exactly what it changes, with its source.
        edits: the changes; any edits make a preset of one's own.
    """

    name: str
    title: str
    description: str
    edits: tuple[Edit, ...]


_ATTENTION_ONLY = (DropResidual(-1), DropFFN(-1))

PRESETS = (
    Preset("clip", "CLIP", "The patch tokens of the model as it is: nothing is changed.", ()),
    Preset(
        "maskclip",
        "MaskCLIP",
        "Last layer: every patch attends to itself alone, so its value is projected; residual and FFN kept "
        "(Zhou, Loy and Dai, ECCV 2022, without prompt denoising and key smoothing).",
        (Identity(-1),),
    ),
    Preset(
        "maskclip-attention",
        "MaskCLIP, attention only",
        "Last layer: every patch attends to itself alone; residual and FFN dropped, as in the ablation of ClearCLIP.",
        (Identity(-1), *_ATTENTION_ONLY),
    ),
    Preset(
        "sclip",
        "SCLIP",
        "Last layer: softmax(QQ) + softmax(KK), a sum and no mean, so rows sum to 2; residual and FFN kept "
        "(Wang, Mei and Yuille, ECCV 2024).",
        (UseSource(("qq", "kk"), "sum", -1),),
    ),
    Preset(
        "clearclip",
        "ClearCLIP",
        "Last layer: softmax(QQ); residual and FFN dropped (Lan et al., ECCV 2024).",
        (UseSource("qq", layers=-1), *_ATTENTION_ONLY),
    ),
    Preset(
        "naclip",
        "NACLIP",
        "Last layer: softmax(KK + g), g a Gaussian between patches of std 5 patches and peak 1, added after scaling, 0 "
        "for CLS; residual and FFN dropped (Hajimiri, Ben Ayed and Dolz, WACV 2025).",
        (UseSource("kk", layers=-1), Neighbourhood(5.0, -1), *_ATTENTION_ONLY),
    ),
)


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        StudioError: there is none.
    """
    for preset in PRESETS:
        if preset.name == name:
            return preset
    names = [preset.name for preset in PRESETS]
    raise StudioError(f"Preset {name!r} is unknown{nearest(name, names)}: choose {', '.join(names)}.")
