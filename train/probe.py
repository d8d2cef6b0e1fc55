"""What attention does to a fixed batch while the model trains: entropy, overlap of A1 and A2, what lambda A2 takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.build import ClipModule
from models.layout import TokenSequence
from models.maps import AttentionMaps, attention_maps
from models.recorder import Recording, record
from models.statistics import entropy
from models.towers import text_tower, vision_tower
from train.data.augment import View
from train.data.batch import make_batch, normalised
from train.evaluation.in_training import in_eval_mode
from train.feed import Feed
from train.logbook import rounded
from train.rng import replayed, rng_state


@dataclass(frozen=True, eq=False)
class Probe:
    """Model input (B, 3, height, width) and token ids (B, N) of the same samples at every look."""

    pixels: Tensor
    tokens: Tensor


def make_probe(feed: Feed, samples: int, device: torch.device) -> Probe | None:
    """The first readable ones among the first `samples` samples of a stage, without augmentation; None for none."""
    preprocess = feed.view.preprocess
    count = min(samples, len(feed.source))
    batch = make_batch(feed.source, View(preprocess), feed.tokenizer, 0, 0, 0, np.arange(count))
    if not bool(batch.valid.any()):
        return None
    pixels = normalised(batch.pixels[batch.valid].to(device), preprocess.mean, preprocess.std)
    return Probe(pixels, batch.tokens[batch.valid].to(device))


@torch.no_grad()
def look(clip: ClipModule, probe: Probe) -> dict[str, Any]:
    """Numbers of each layer of both towers, in float32: {"vision": {"entropy_a1": [...], ...}, "text": ...}.

    They are means over pictures, heads and queries; text has the queries up to the one that is read out.

    entropy_a1, entropy_a2   of a row, by the log of the number of its keys: 0 for one key, 1 for uniform weights
    overlap                  cosine of the rows of A1 and A2
    cancelled                sum over keys of min(A1, lambda A2) by the sum of A1: the share of A1 that is taken away
    lambda, lambda_spread    mean and standard deviation, where lambda depends on head and token

    The model, its modes and the random generators are left as they are, also where memory runs out. A tower whose
    attention cannot be recorded is left out.
    """
    found: dict[str, Any] = {}
    device = probe.pixels.device
    with in_eval_mode(clip), replayed(rng_state(device), device), torch.compiler.set_stance("force_eager"):
        vision, text = vision_tower(clip), text_tower(clip)
        if vision.attention:
            with record(vision) as recording:
                clip.encode_image(probe.pixels)
            found["vision"] = _numbers(recording, None)
        if text.attention and isinstance(text.layout, TokenSequence):
            with record(text) as recording:
                clip.encode_text(probe.tokens)
            last = text.layout.readout(probe.tokens)
            read = torch.arange(probe.tokens.shape[1], device=device) <= last[:, None]
            found["text"] = _numbers(recording, read)
    return found


def _numbers(recording: Recording, read: Tensor | None) -> dict[str, list[float]]:
    """One list a number, an entry a layer. `read` (B, N) says which queries count.

    Maps are worked out and given up layer by layer, so that a deep model takes no more memory for them than one layer.
    """
    numbers: dict[str, list[float]] = {}
    for layer in recording:
        for name, value in _of_layer(attention_maps(layer), read).items():
            numbers.setdefault(name, []).append(rounded(value))
    return numbers


def _of_layer(maps: AttentionMaps, read: Tensor | None) -> dict[str, float]:
    numbers = {"entropy_a1": _mean(_entropy(maps.a1, read), read)}
    a2, subtracted = maps.a2, maps.subtracted
    if a2 is None or subtracted is None:
        return numbers
    numbers["entropy_a2"] = _mean(_entropy(a2, read), read)
    numbers["overlap"] = _mean(F.cosine_similarity(maps.a1, a2, dim=-1), read)
    numbers["cancelled"] = _mean(torch.minimum(maps.a1, subtracted).clamp_min(0).sum(-1) / maps.a1.sum(-1), read)
    if maps.lam is not None and maps.lam.numel() > 1:
        lam = maps.lam[..., 0].expand(maps.a1.shape[:-1])
        mean = _mean(lam, read)
        numbers |= {"lambda": mean, "lambda_spread": _mean((lam - mean) ** 2, read) ** 0.5}
    return numbers


def _entropy(weights: Tensor, causal: Tensor | None) -> Tensor:
    """Entropy of rows (..., Nq, Nk), by the log of the keys that a query has; of one key it is 0."""
    whole = entropy(weights) * np.log(weights.shape[-1])
    if causal is None:
        return whole / np.log(weights.shape[-1])
    keys = torch.arange(1, weights.shape[-2] + 1, device=weights.device)
    return whole / keys.clamp_min(2).log()


def _mean(rows: Tensor, read: Tensor | None) -> float:
    """The mean over pictures, heads and the queries that count, of rows (B, H, Nq)."""
    if read is None:
        return float(rows.mean())
    counts = read[:, None].expand(rows.shape)
    return float(rows[counts].mean())


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device has too little memory: PyTorch has a class for GPUs alone, and a text for main memory."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
