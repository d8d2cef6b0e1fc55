"""One call for every checkpoint people have: a shipped name, a file, a folder, the Hub, open_clip's zoo."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from models import open_clip_zoo as zoo
from models.checkpoints import CONFIG, MARK, TOKENIZER, WEIGHTS, CheckpointInfo, assemble, load_checkpoint
from models.claims import check_claim
from models.config import OpenClipConfig
from models.errors import CheckpointError
from models.files.state_keys import checked_logit_scale
from models.files.weights import Weights, read_weights
from models.formats import recognise
from models.hub import SCHEME, Repository, cached, fetch, listed, repository
from models.loaded import LoadedModel, Origin
from models.overrides import Overrides, overrides_of
from models.plain import nearest
from models.transformers_config import PREPROCESSOR, transformers_settings
from models.vocabulary import TOKENIZER_CONFIG, NoTokenizer, TokenizerRule, fitting_tokenizer, padding_id

SHIPPED = Path(__file__).resolve().parent.parent / "assets" / "checkpoints"
OPEN_CLIP = "open_clip:"
# Weight files that say themselves what they are: DiffCLIP's published one, and Transformers' old one.
_OTHERS = ("checkpoint_best.pt", "pytorch_model.bin")
_KINDS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_NAMES = (WEIGHTS, CONFIG, TOKENIZER, *zoo.WEIGHTS, zoo.CONFIG, *_OTHERS, TOKENIZER_CONFIG, PREPROCESSOR)


def available_models() -> list[str]:
    """Names of the shipped models, sorted."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG}"))


def load_model(source: str | Path, **settings: Any) -> LoadedModel:
    """Load a model, recognised by what is in its files.

    Args:
        source: a shipped name, a file or folder, "hf-hub:org/repo[@rev]", or "open_clip:ARCH/PRETRAINED", where
            PRETRAINED is a tag of open_clip's list or a file.
        settings: what the file does not say, or what shall be otherwise: the fields of `models.overrides.Overrides`,
            for example `heads=(12, 8)`, `lambda_init=0.8`, `grid=(24, 24)`.

    Raises:
        CheckpointError: it cannot be found, is broken, runs code, or does not fit; says which and what to do.
    """
    model = _found(str(source), overrides_of(settings))
    return replace(model, origin=replace(model.origin, source=str(source)))


def _found(text: str, overrides: Overrides) -> LoadedModel:
    if text in available_models():
        return load_checkpoint(SHIPPED / text, text, overrides)
    if text.startswith(SCHEME):
        return _from_hub(repository(text), overrides)
    if text.startswith(OPEN_CLIP):
        return _from_open_clip(text.removeprefix(OPEN_CLIP), overrides)
    path, kind = _looked_at(text)
    if kind == "folder":
        return _from_folder(path, frozenset(name for name in _NAMES if (path / name).exists()), path.name, overrides)
    if kind == "file":
        return _from_file(path, path.stem, overrides)
    known = available_models()
    raise CheckpointError(
        f"{text!r} is neither a shipped model nor a file or folder{nearest(text, known)}: "
        f"choose {', '.join(known) or 'a path'}, hf-hub:org/repo, or open_clip:ARCH/PRETRAINED."
    )


def _looked_at(text: str) -> tuple[Path, str]:
    """The path that a text names, and whether it is a "file", a "folder" or nothing, ""."""
    try:
        path = Path(text).expanduser()
        return path, "folder" if path.is_dir() else "file" if path.is_file() else ""
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{text[:80]!r} cannot be looked at ({error}): check the path.") from error


def _from_hub(source: Repository, overrides: Overrides) -> LoadedModel:
    """A repository of ours, of open_clip, of Transformers, or with a file that says itself what it is.

    What the cache holds is enough if it makes a whole; otherwise the repository's own list decides.
    """
    names = cached(source, _NAMES)
    if not _whole(names):
        names = listed(source)
    wanted = [name for name in _wanted(names) if name in names]
    if not wanted:
        raise CheckpointError(f"{source} holds no CLIP weights of a known name: {', '.join(_NAMES[:6])} are known.")
    paths = [fetch(source, name) for name in wanted]
    return _from_folder(paths[0].parent, names, source.name.rpartition("/")[2], overrides)


def _whole(names: frozenset[str]) -> bool:
    """Whether these files make a model: weights that say what they are, or weights with their config."""
    alone = any(name in names for name in _OTHERS)
    return alone or {WEIGHTS, CONFIG} <= names or (zoo.CONFIG in names and bool(names & set(zoo.WEIGHTS)))


def _wanted(names: frozenset[str]) -> tuple[str, ...]:
    """Which of a repository's files make the model: open_clip's come first where there are several kinds."""
    if zoo.CONFIG in names and names & set(zoo.WEIGHTS):
        first = next(name for name in zoo.WEIGHTS if name in names)
        return first, zoo.CONFIG, TOKENIZER, TOKENIZER_CONFIG
    if WEIGHTS in names:
        return WEIGHTS, CONFIG, TOKENIZER, PREPROCESSOR
    return (*[name for name in _OTHERS if name in names][:1], CONFIG, PREPROCESSOR)


def _from_folder(folder: Path, names: frozenset[str], name: str, overrides: Overrides) -> LoadedModel:
    """A folder of this project, of open_clip, of Transformers, or with a weight file we know by name."""
    if zoo.CONFIG in names:
        weights = next((file for file in (*zoo.WEIGHTS, WEIGHTS) if file in names), None)
        if weights is None:
            raise CheckpointError(
                f"{folder} holds a config but no weights: copy one of {', '.join((*zoo.WEIGHTS, WEIGHTS))} there."
            )
        return _from_open_clip_config(folder / zoo.CONFIG, folder / weights, name, overrides)
    foreign = CONFIG in names and _is_transformers(folder / CONFIG)
    if CONFIG in names and not foreign:
        return load_checkpoint(folder, name, overrides)
    weights = next((file for file in (WEIGHTS, *_OTHERS, *zoo.WEIGHTS) if file in names), None)
    if weights is None:
        others = sorted(path.name for kind in _KINDS for path in folder.glob(f"*{kind}"))
        if others:
            raise CheckpointError(
                f"{folder} holds no weights of a name that is known, but {', '.join(others[:4])}: load such a file by "
                "its own path."
            )
        return load_checkpoint(folder, name, overrides)  # says what is missing
    return _recognised(folder / weights, name, overrides, transformers_settings(folder) if foreign else Overrides())


def _from_file(path: Path, name: str, overrides: Overrides) -> LoadedModel:
    """A weight file; one that belongs to a checkpoint folder brings its config along."""
    beside = path.parent / CONFIG
    if path.name == WEIGHTS and beside.exists() and not _is_transformers(beside):
        return load_checkpoint(path.parent, None, overrides)
    return _recognised(path, name, overrides, Overrides())


def _recognised(path: Path, name: str, overrides: Overrides, known: Overrides) -> LoadedModel:
    """Weights by what their tensors say; `known` is what files beside them say.

    Raises:
        CheckpointError: the file is broken, runs code, is no CLIP of a known layout, or lost its config.
    """
    weights = read_weights(path)
    if MARK in weights.metadata:
        raise CheckpointError(
            f"{path} is from a checkpoint folder of this project and lies without its {CONFIG}, which says what no "
            "weight tells: copy the whole folder."
        )
    told = _either(overrides, known)
    found = recognise(_scaled(weights), told, str(path))
    # What the shapes needed has been used; what is left changes the model that was found.
    rest = replace(told, heads=None, lambda_init=None, file_grid=None)
    text = found.config.text
    tokenizer = fitting_tokenizer(text.vocab_size, text.context_length)
    info = CheckpointInfo(
        f"{found.family.split(',')[0]}, {name}",
        "photographs",
        found.config,
        found.preprocess,
        tokenizer.rule,
        found.family,
        found.assumed,
    )
    notes = _notes(weights) + tuple(f"a config beside it says {sentence}" for sentence in known.said())
    origin = Origin(found.family, path, notes, found.assumed, overrides)
    return assemble(found.state, info, origin, name, rest)


def _either(first: Overrides, second: Overrides) -> Overrides:
    """The settings of the first, and where it has none those of the second."""
    pairs = {f.name: (getattr(first, f.name), getattr(second, f.name)) for f in fields(Overrides)}
    return Overrides(**{name: b if a is None else a for name, (a, b) in pairs.items()})


def _is_transformers(path: Path) -> bool:
    """Whether a config.json is the Transformers library's, which calls its own by the same name as we do ours."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and ("model_type" in data or "architectures" in data)


def _from_open_clip_config(config_file: Path, weights: Path, name: str, overrides: Overrides) -> LoadedModel:
    """Weights beside an open_clip_config.json, which describes the model and its transform."""
    try:
        data = json.loads(config_file.read_text(encoding="utf-8"))
        model, transform = dict(data["model_cfg"]), dict(data.get("preprocess_cfg") or {})
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{config_file} is no open_clip config ({type(error).__name__}: {error}): it needs model_cfg."
        ) from error
    return _open_clip_model(OpenClipConfig(model), transform, weights, name, overrides)


def _from_open_clip(reference: str, overrides: Overrides) -> LoadedModel:
    """ARCH/PRETRAINED, where PRETRAINED is a tag of open_clip's list or a file."""
    arch, slash, tag = reference.partition("/")
    if not slash or not tag:
        raise CheckpointError(f"{OPEN_CLIP}{reference} lacks its weights: write open_clip:ARCH/PRETRAINED.")
    config, name = zoo.architecture(arch), f"{arch}/{Path(tag).name}"
    path, kind = _looked_at(tag)
    if kind == "file":
        return _open_clip_model(config, {}, path, name, overrides)
    source = zoo.pretrained(config, tag)
    if source.quick_gelu:
        config = replace(config, open_clip={**config.open_clip, "quick_gelu": True})
    if not source.repository:
        raise CheckpointError(
            f"open_clip knows {name} only by its address {source.url}: fetch it from there, then load "
            f"open_clip:{arch}/PATH."
        )
    place = Repository(source.repository)
    there = cached(place, source.files) or listed(place)
    file = next((file for file in source.files if file in there), None)
    if file is None:
        raise CheckpointError(f"{place} holds none of {', '.join(source.files)}: choose another tag for {arch}.")
    return _open_clip_model(config, source.preprocess, fetch(place, file), name, overrides)


def _open_clip_model(
    config: OpenClipConfig, transform: dict[str, Any], path: Path, name: str, overrides: Overrides
) -> LoadedModel:
    """Weights for an architecture of open_clip's, under whichever of its two spellings of the text tower."""
    weights = read_weights(path)
    check_claim(config, weights.state, path)
    module = zoo.build_open_clip(config)
    state = zoo.fitted_names(module, _scaled(weights))
    visual: Any = module.visual
    preprocess = zoo.preprocess_of(transform, _size(visual.image_size))
    rule, file, said = _words(config, path)
    assumed = list(said)
    if not transform:
        for field in ("mean", "std", "resize", "interpolation"):
            if getattr(overrides, field) is None:
                assumed.append(f"open_clip's default {field} of pictures, the file names none")
    if config.architecture and not transform and overrides.activation is None:
        assumed.append(f"the activation of {config.architecture}; those named -quickgelu have another")
    family = f"open_clip, {config.architecture}" if config.architecture else "open_clip"
    info = CheckpointInfo(
        f"{config.architecture or 'open_clip'}, {Path(name).name}",
        "photographs",
        config,
        preprocess,
        rule,
        family,
        tuple(assumed),
    )
    origin = Origin(family, path, _notes(weights), tuple(assumed), overrides)
    loaded = assemble(state, info, origin, name, overrides, file)
    if isinstance(loaded.tokenizer, NoTokenizer) and said:
        return replace(loaded, tokenizer=replace(loaded.tokenizer, why=said[0]))
    return loaded


def _words(config: OpenClipConfig, weights: Path) -> tuple[TokenizerRule, Path | None, tuple[str, ...]]:
    """The tokenizer's rule, its file, and what was assumed or why there is none: beside the weights, or on the Hub."""
    rule = zoo.tokenizer_rule(config)
    if rule.kind != "json":
        return rule, None, ()
    text = config.open_clip["text_cfg"]
    file = weights.parent / TOKENIZER
    if not file.exists():
        try:
            source = repository(str(text.get("hf_tokenizer_name") or text.get("hf_model_name")))
            file = fetch(source, TOKENIZER)
            if TOKENIZER_CONFIG in (cached(source, (TOKENIZER_CONFIG,)) or listed(source)):
                fetch(source, TOKENIZER_CONFIG)
        except CheckpointError as error:
            if not file.exists():
                return TokenizerRule("none"), None, (f"no texts can be read, since its tokenizer is missing: {error}",)
    pad = padding_id(file)
    told = () if pad is not None else ("short texts are filled up with id 0; no file names another",)
    return replace(rule, pad=pad or 0), file, told


def _scaled(weights: Weights) -> dict[str, torch.Tensor]:
    """The weights with a logit scale that is a scalar and not yet exponentiated."""
    state = dict(weights.state)
    if "logit_scale" in state:
        state["logit_scale"] = checked_logit_scale(state["logit_scale"])
    return state


def _size(size: Any) -> int | tuple[int, int]:
    """An image size as open_clip keeps it, a number or (height, width)."""
    height, width = (size, size) if isinstance(size, int) else tuple(map(int, size))
    return height if height == width else (height, width)


def _notes(weights: Weights) -> tuple[str, ...]:
    """What was found in the file beside the weights."""
    notes = [f"{weights.container} file of {len(weights.state)} tensors"]
    if weights.nested_in:
        notes.append(f"the weights were found under {weights.nested_in!r}")
    if weights.stripped:
        notes.append(f"the prefix {weights.stripped!r}, which every name carried, was removed")
    if weights.left_out:
        notes.append(f"other tensors are there and were not read: {', '.join(weights.left_out)}")
    if weights.extra:
        notes.append(f"beside them: {', '.join(sorted(weights.extra))}")
    return tuple(notes)
