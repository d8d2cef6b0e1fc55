"""Names of weights: the wrapper that all of them carry, and how a set of names differs from what a model wants."""

import math
from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor

from models.errors import CheckpointError

# What wraps a model in training code and in larger models; no architecture of ours begins with one of these.
WRAPPERS = ("module.", "_orig_mod.", "model.", "clip_model.", "clip.", "student.", "base_model.")
_SHOWN = 3
# exp(logit_scale) is clipped at 100 in training (Radford et al. 2021, section 2.5).
_LARGEST_LOG_SCALE = math.log(100) + 0.1


def common_wrapper(keys: Collection[str]) -> str:
    """The known wrappers that every key begins with, joined ("module.clip_model."); "" if one key has none.

    A beginning that is shared but no wrapper, as `visual.`, is part of the architecture and stays.
    """
    found = ""
    while keys:
        wrapper = next((w for w in WRAPPERS if all(k.startswith(w, len(found)) for k in keys)), "")
        if not wrapper or any(len(key) == len(found) + len(wrapper) for key in keys):
            break
        found += wrapper
    return found


def prefix_note(keys: Collection[str]) -> str:
    """ "3 of 150 keys begin with 'module.'" where some keys carry a wrapper and others do not; "" otherwise."""
    notes = []
    for wrapper in WRAPPERS:
        count = sum(key.startswith(wrapper) for key in keys)
        if 0 < count < len(keys):
            notes.append(f"{count:,} of {len(keys):,} keys begin with {wrapper!r}")
    return ", ".join(notes)


def fit_report(wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> str:
    """How the weights that were found differ from those a model wants, as one sentence; "" if they fit.

    Counts come first, then the first few names, grouped by the part of the model that they belong to.

    Args:
        wanted: name -> shape in the model.
        found: name -> shape in the file.
    """
    missing = [name for name in wanted if name not in found]
    unknown = [name for name in found if name not in wanted]
    reshaped = [name for name in wanted if name in found and found[name] != wanted[name]]
    parts = []
    if missing:
        parts.append(f"{len(missing):,} of {len(wanted):,} weights are missing ({_grouped(missing, wanted)})")
    if unknown:
        parts.append(f"{len(unknown):,} of {len(found):,} are unknown ({_grouped(unknown, found)})")
        if note := prefix_note(found):
            parts.append(note)
    if reshaped:
        shown = "; ".join(f"{_short(n)} is {found[n]}, not {wanted[n]}" for n in reshaped[:_SHOWN])
        parts.append(f"{len(reshaped):,} have another shape ({shown}{'; …' if len(reshaped) > _SHOWN else ''})")
    return "; ".join(parts) + "." if parts else ""


def checked_logit_scale(scale: Tensor) -> Tensor:
    """The logarithm of the logit scale as a tensor of shape (), from shape () or (1,).

    Raises:
        CheckpointError: another shape, not finite, or so large that it must be the scale itself and not its
            logarithm: `exp` of it would make every softmax one-hot.
    """
    if scale.shape not in (torch.Size([]), torch.Size([1])):
        raise CheckpointError(
            f"logit_scale has shape {tuple(scale.shape)}, and must be one number: use the weights of a CLIP."
        )
    value = float(scale)
    if not math.isfinite(value):
        raise CheckpointError(
            f"logit_scale is {value}, and must be finite: the training diverged, use earlier weights."
        )
    if value > _LARGEST_LOG_SCALE:
        raise CheckpointError(
            f"logit_scale is {value:.4g} and looks already exponentiated, since CLIP stores a logarithm of at most "
            f"ln(100) = 4.605: store log({value:.4g}) = {math.log(value):.4g} instead."
        )
    return scale.reshape(())


def _grouped(names: Iterable[str], among: Collection[str]) -> str:
    """ "visual.* 42 of 42: visual.conv1.weight, …": the largest groups first, the first few names of each."""
    groups: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for name in names:
        groups.setdefault(_group(name), []).append(name)
    for name in among:
        sizes[_group(name)] = sizes.get(_group(name), 0) + 1
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    texts = []
    for group, members in ordered[:_SHOWN]:
        first = ", ".join(map(_short, members[:_SHOWN])) + (", …" if len(members) > _SHOWN else "")
        texts.append(
            first if members == [group] else f"{_short(group)}.* {len(members):,} of {sizes[group]:,}: {first}"
        )
    if len(ordered) > _SHOWN:
        texts.append(f"and {sum(len(members) for _, members in ordered[_SHOWN:]):,} more")
    return "; ".join(texts)


def _short(name: str) -> str:
    """A name for a sentence: a file may hold names with line breaks, or endless ones."""
    cut = name if len(name) <= 120 else f"{name[:120]}…"
    return cut if cut.isprintable() else ascii(cut)


def _group(name: str) -> str:
    return name.split(".", 1)[0]
