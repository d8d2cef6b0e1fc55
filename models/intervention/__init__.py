"""The model run as changed: edits as values, and one context that runs a tower with them."""

from models.intervention.edits import (
    AblateHeads,
    DropFFN,
    DropResidual,
    Edit,
    Identity,
    MatchedEntropy,
    Neighbourhood,
    OtherA2,
    RandomMask,
    SetLambda,
    ShuffledA2,
    SupportOf,
    TopK,
    UniformA2,
    UseNormalizer,
    UseSource,
)
from models.intervention.run import edited_maps, intervene

__all__ = [
    "AblateHeads",
    "DropFFN",
    "DropResidual",
    "Edit",
    "Identity",
    "MatchedEntropy",
    "Neighbourhood",
    "OtherA2",
    "RandomMask",
    "SetLambda",
    "ShuffledA2",
    "SupportOf",
    "TopK",
    "UniformA2",
    "UseNormalizer",
    "UseSource",
    "edited_maps",
    "intervene",
]
