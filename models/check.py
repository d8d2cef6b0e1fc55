"""Check a model and the solver on the machine at hand: are the maps true, does alpha-entmax agree with its reference?

A map is true where weights @ V, put through the layer's own output projection, is what the layer itself gave.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from entmax import entmax15, entmax_bisect, sparsemax

from models.errors import RecordingError
from models.loaded import LoadedModel
from models.normalizers import Normalizer
from models.recorder import record

_ALPHAS = (1.05, 1.25, 1.5, 1.75, 2.0)
_ENTMAX_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Line:
    """One thing that was checked: what, whether it holds, and the figure or the reason."""

    what: str
    passed: bool
    figure: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.passed else 'FAIL'}  {self.what:<28}  {self.figure}"


def check_entmax(rows: int = 64, keys: int = 197) -> Iterator[Line]:
    """Our solver against the `entmax` package in float64, at several alphas and score scales."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, keys, generator=generator, dtype=torch.float64)
    for alpha in _ALPHAS:
        miss = 0.0
        for scale in (1.0, 2.0, 4.0):
            wide = scores * scale
            exact = {1.5: entmax15, 2.0: sparsemax}.get(alpha)
            oracle = exact(wide, dim=-1) if exact else entmax_bisect(wide, alpha=alpha, dim=-1, n_iter=100)
            miss = max(miss, float((Normalizer(alpha)(wide.float()).double() - oracle).abs().max()))
        passed = miss <= _ENTMAX_TOLERANCE
        yield Line(f"entmax, alpha {alpha}", passed, f"largest difference {miss:.1e}, {_ENTMAX_TOLERANCE:.0e} allowed")


def check_reconstruction(model: LoadedModel) -> Iterator[Line]:
    """One line a layer of both towers: does weights @ V give what the layer gave?"""
    generator = torch.Generator().manual_seed(0)
    height, width = model.preprocess_settings.input_size
    pixels = torch.randn(1, 3, height, width, generator=generator)
    ids = torch.randint(1, max(2, model.tokenizer.vocab_size - 1), (1, model.tokenizer.context), generator=generator)
    runs = ((model.vision, lambda: model.encode_image(pixels)), (model.text, lambda: model.encode_text(ids)))
    for tower, run in runs:
        if tower.reason:
            yield Line(f"{tower.name} tower", False, tower.reason)
            continue
        with record(tower) as recording:
            run()
        for layer in range(tower.layers):
            try:
                miss = recording.miss(layer)
                yield Line(f"{tower.name} layer {tower.layer_name(layer)}", True, f"off by {miss:.1e} of its largest")
            except RecordingError as error:
                yield Line(f"{tower.name} layer {tower.layer_name(layer)}", False, str(error))
