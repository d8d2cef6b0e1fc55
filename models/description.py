"""What a loaded model is, in words: what was found, what was assumed, what was given, and what decides its results."""

from dataclasses import dataclass
from typing import Any

from models.build import activation_of
from models.config import ModelConfig
from models.layout import TokenGrid, TokenSequence
from models.loaded import LoadedModel, Tower

_POOLS = {
    "argmax": "at the highest id",
    "eos": "at the end-of-text id",
    "first": "at the first position",
    "last": "at the last position",
}
_TRUNCATIONS = {
    "keep_end": "too long a text loses its tail and keeps its end token",
    "cut_end": "too long a text loses its end token with its tail, as in SLIP's published code",
}
_VOCABULARIES = {"domain": "the checkpoint's own", "clip": "CLIP's", "json": "tokenizer.json", "none": "none here"}


@dataclass(frozen=True)
class Description:
    """Facts on a model in the order in which a person asks for them; `str()` aligns them in two columns."""

    rows: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self.rows)
        return "\n".join(f"{label:<{width}}  {value}" for label, value in self.rows)

    def __getitem__(self, label: str) -> str:
        return dict(self.rows)[label]


def describe(model: LoadedModel) -> Description:
    """Everything that decides what a model computes, and where each of it came from."""
    transform = model.preprocess_settings
    height, width = transform.input_size
    parameters = sum(parameter.numel() for parameter in model.module.parameters())
    rows = [
        ("name", model.name),
        ("title", model.title),
        ("recognised as", model.origin.family),
        ("read from", str(model.origin.path)),
        *(("found", note) for note in model.origin.notes),
        ("parameters", f"{parameters:,}"),
        ("vision", _tower(model.vision)),
        ("vision tokens", _tokens(model.vision.layout)),
        ("vision blocks", _blocks(model.vision)),
        *_lambda_rows(model.vision),
        ("text", _tower(model.text)),
        ("text tokens", _tokens(model.text.layout)),
        ("text blocks", _blocks(model.text)),
        *_lambda_rows(model.text),
        ("embedding", f"{_embedding(model)} numbers, logit scale {model.logit_scale:.4g}"),
        (
            "picture",
            f"{height} x {width} pixels, "
            + ("both sides scaled" if transform.mode == "squash" else "scaled with its aspect kept, centre crop")
            + f", {transform.interpolation}; mean {_numbers(transform.mean)}, std {_numbers(transform.std)}",
        ),
        (
            "vocabulary",
            f"{model.tokenizer.vocab_size:,} ids, {_VOCABULARIES[model.tokenizer.rule.kind]}{_cleaning(model)}; "
            f"{_TRUNCATIONS[model.tokenizer.rule.truncation]}",
        ),
        *(("assumed", sentence) for sentence in model.origin.assumed),
        *(("given", sentence) for sentence in model.origin.given),
    ]
    return Description(tuple(rows))


def _cleaning(model: LoadedModel) -> str:
    """How texts are prepared, for a vocabulary whose rules are not fixed."""
    rule = model.tokenizer.rule
    return f", texts cleaned by {rule.clean!r}, filled up with id {rule.pad}" if rule.kind == "json" else ""


def _tower(tower: Tower) -> str:
    if tower.reason:
        return tower.reason
    kind = "differential attention" if tower.differential else "standard attention"
    pool = " and an attention-pooling head" if tower.pooled else ""
    return f"{len(tower.blocks)} layers of {kind}, {tower.heads} heads{pool}"


def _tokens(layout: TokenGrid | TokenSequence) -> str:
    if isinstance(layout, TokenGrid):
        prefix = [] if layout.cls is None else ["CLS"]
        prefix += [f"{layout.registers} registers"] if layout.registers else []
        return f"{' and '.join(prefix) or 'no prefix'}, then {layout.rows} x {layout.cols} patches"
    mask = "each position sees what stands before it" if layout.causal else "every position sees every other"
    return f"{layout.tokens} positions, {mask}, read out {_POOLS.get(layout.pool, layout.pool)}"


def _blocks(tower: Tower) -> str:
    if not tower.blocks:
        return "unknown"
    activation = {"gelu": "GELU", "quick_gelu": "QuickGELU"}.get(
        activation_of(tower.blocks) or "", "another activation"
    )
    return f"{activation}, LayerNorm epsilon {_eps(tower.blocks[0])}"


def _eps(block: Any) -> str:
    norm = getattr(block, "ln_1", None) or getattr(block, "norm1", None)
    return "unknown" if norm is None else f"{norm.eps:g}"


def _lambda_rows(tower: Tower) -> list[tuple[str, str]]:
    lambdas = tower.lambdas()
    if tower.differential and lambdas is None:
        return [(f"{tower.name} lambda", "sigmoid of the token, a number for every token and head")]
    if lambdas is None or tower.lambda_init is None:
        return []
    return [
        (f"{tower.name} lambda_init", _numbers(tower.lambda_init)),
        (f"{tower.name} lambda", _numbers(lambdas)),
    ]


def _embedding(model: LoadedModel) -> str:
    if isinstance(model.config, ModelConfig):
        return str(model.config.embed_dim)
    return str(model.config.open_clip.get("embed_dim", "unknown"))


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
