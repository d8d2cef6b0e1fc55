"""The control for what is worked out by running a model: the same of the model run with A2 shuffled over the patches.

A map off a recording can be shuffled where it stands; relevance and attributions cannot, since gradients pass through
every layer. So the model itself is run with the intervention in all its layers, once for each of a few fixed orders.
"""

from models import StudioError, Tower
from models.intervention import Edit, ShuffledA2

RUNS = 3
RUN_SO = (
    f"the same number of the model run with A2 permuted over the patches in every layer, mean of {RUNS} fixed shuffles"
)


def shuffled_edits(tower: Tower) -> tuple[tuple[Edit, ...], ...]:
    """The edits of each run: one order of the patches in all layers, but a pooling head, which has one map.

    Raises:
        StudioError: a tower that subtracts nothing.
    """
    if not tower.differential:
        raise StudioError(f"The {tower.name} tower has one map and no A2 that could be shuffled: choose a DiffCLIP.")
    layers = tuple(range(tower.layers - tower.pooled))
    return tuple((ShuffledA2(seed, layers),) for seed in range(RUNS))
