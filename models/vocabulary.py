"""The vocabularies of models that are not ours: CLIP's own BPE, tokenizer.json files, and none at all.

Which vocabulary, and what is done with a text that is too long, belongs to a checkpoint like its weights do.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol

import torch
from open_clip.tokenizer import SimpleTokenizer, get_clean_fn
from tokenizers import Tokenizer as Pieces
from torch import Tensor

from models.errors import CheckpointError, StudioError
from models.scripts import foreign_words

CLIP_VOCABULARY = 49_408
TOKENIZER_CONFIG = "tokenizer_config.json"
Truncation = Literal["keep_end", "cut_end"]


@dataclass(frozen=True)
class TokenizerRule:
    """What config.json says of the tokenizer.

    Attributes:
        kind: "domain" (tokenizer.json of this project), "clip" (CLIP's BPE of 49,408 ids), "json" (a tokenizer.json
            of the tokenizers library), or "none" (ids only).
        truncation: of a text that is too long, "keep_end" keeps the end token and loses the tail; "cut_end" loses
            the end token with the tail, as SLIP's and DiffCLIP's published code does.
        clean: how a text is cleaned before: "lower", "whitespace" or "canonicalize", as open_clip names it.
        pad: the id that fills up.
    """

    kind: Literal["domain", "clip", "json", "none"] = "domain"
    truncation: Truncation = "keep_end"
    clean: Literal["lower", "whitespace", "canonicalize"] = "lower"
    pad: int = 0


class Tokenizer(Protocol):
    """Texts -> ids, whatever the vocabulary."""

    @property
    def context(self) -> int:
        """Number of positions, N."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        ...

    @property
    def rule(self) -> TokenizerRule:
        """What a checkpoint says of it."""
        ...

    def __call__(self, texts: str | list[str]) -> Tensor:
        """Ids (B, context) of one text or several."""
        ...

    def pieces(self, text: str) -> list[str]:
        """How a person reads the tokens of a text, start and end included."""
        ...

    def unknown_words(self, text: str) -> list[str]:
        """Words of which the model has learned nothing, where that is known."""
        ...

    def foreign_words(self, text: str) -> list[str]:
        """Words in other scripts, and emoji, that the model hardly knows, where it was made for English."""
        ...

    def cut_text(self, text: str) -> str:
        """The tail of a text that is not seen, or ""."""
        ...

    def save(self, path: Path) -> None:
        """Write what a checkpoint folder needs beside the rule."""
        ...


@dataclass(frozen=True)
class ClipTokenizer:
    """CLIP's BPE: start, pieces, end, padding with 0. Over-long texts are cut as `rule.truncation` says."""

    context: int = 77
    rule: TokenizerRule = field(default_factory=lambda: TokenizerRule("clip"))

    @property
    def vocab_size(self) -> int:
        """Number of ids, 49,408."""
        return CLIP_VOCABULARY

    def __call__(self, texts: str | list[str]) -> Tensor:
        """Ids (B, context) of one text or several; always two-dimensional.

        Raises:
            StudioError: no text at all.
        """
        bpe = _clip_bpe()
        rows = ([bpe.sot_token_id, *self._ids(text), bpe.eot_token_id] for text in _batch(texts))
        return _filled(rows, self.context, self.rule, bpe.eot_token_id)

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text as they are read, start and end included."""
        bpe = _clip_bpe()
        kept = self._ids(text)[: self.context - 2]
        return ["<start>", *(bpe.decode([i]).strip() or "·" for i in kept), "<end>"]

    def unknown_words(self, text: str) -> list[str]:
        """Nothing: which words such a model has not learned is not known."""
        return []

    def foreign_words(self, text: str) -> list[str]:
        """Words in other scripts, and emoji; the vocabulary was made of captions in English."""
        return foreign_words(text)

    def cut_text(self, text: str) -> str:
        """The tail of a text that does not fit into the context, or ""."""
        return _clip_bpe().decode(self._ids(text)[self.context - 2 :]).strip()

    def save(self, path: Path) -> None:
        """Nothing to write: the vocabulary comes with open_clip."""

    def _ids(self, text: str) -> list[int]:
        return _clip_bpe().encode(_whole(text))


@dataclass(frozen=True, eq=False)
class JsonTokenizer:
    """A tokenizer.json of the tokenizers library, as SigLIP's repositories hold it: its own special tokens."""

    bpe: Pieces
    context: int
    rule: TokenizerRule

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.bpe.get_vocab_size()

    def __call__(self, texts: str | list[str]) -> Tensor:
        """Ids (B, context) of one text or several.

        Raises:
            StudioError: no text at all.
        """
        rows = []
        for text in _batch(texts):
            ids, plain = self._ids(text), self._ids(text, special=False)
            # Only an end token that the vocabulary itself adds is kept when the text is cut.
            ends = self.rule.truncation == "keep_end" and len(ids) > len(plain) and ids[-1:] != plain[-1:]
            rows.append(ids[: self.context - 1] + ids[-1:] if ends and len(ids) > self.context else ids)
        return _filled(rows, self.context, self.rule, None)

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text as the vocabulary writes them."""
        return [self.bpe.id_to_token(i) or "" for i in self._ids(text)[: self.context]]

    def unknown_words(self, text: str) -> list[str]:
        """Nothing: which words such a model has not learned is not known."""
        return []

    def foreign_words(self, text: str) -> list[str]:
        """Nothing: such vocabularies hold many languages."""
        return []

    def cut_text(self, text: str) -> str:
        """The tail of a text that does not fit into the context, or ""."""
        plain = self._ids(text, special=False)
        room = self.context - (len(self._ids(text)) - len(plain))
        return self.bpe.decode(plain[room:]).strip()

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        path.write_text(self.bpe.to_str(), encoding="utf-8")

    def _ids(self, text: str, special: bool = True) -> list[int]:
        return self.bpe.encode(_cleaner(self.rule.clean)(_whole(text)), add_special_tokens=special).ids


@dataclass(frozen=True)
class NoTokenizer:
    """The vocabulary is not ours to know: ids can be encoded, texts cannot."""

    vocab_size: int
    context: int
    why: str = ""
    rule: TokenizerRule = field(default_factory=lambda: TokenizerRule("none"))

    def __call__(self, texts: str | list[str]) -> Tensor:
        """Always refuses.

        Raises:
            StudioError: says which vocabulary is missing, and that ids can be encoded.
        """
        why = f" ({self.why})" if self.why else ""
        raise StudioError(
            f"This model has a vocabulary of {self.vocab_size:,} ids for which there is no tokenizer here{why}: no "
            "text can be read. Bring the checkpoint in a folder with its tokenizer.json; in Python, give token ids to "
            "encode_text."
        )

    def pieces(self, text: str) -> list[str]:
        """Always refuses, as calling does."""
        self(text)
        return []

    def unknown_words(self, text: str) -> list[str]:
        """Nothing is known of any word."""
        return []

    def foreign_words(self, text: str) -> list[str]:
        """Nothing is known of any word."""
        return []

    def cut_text(self, text: str) -> str:
        """Nothing is cut, for nothing is read."""
        return ""

    def save(self, path: Path) -> None:
        """Nothing to write."""


def json_tokenizer(path: Path, context: int, rule: TokenizerRule) -> JsonTokenizer:
    """Read a tokenizer.json of the tokenizers library.

    Raises:
        CheckpointError: it is missing, or is not such a file.
    """
    try:
        bpe = Pieces.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"The tokenizer {path.name} is missing from {path.parent}: copy it there.") from error
    except Exception as error:  # tokenizers raises bare Exception for a malformed file
        raise CheckpointError(
            f"{path} is not a tokenizer.json of the tokenizers library ({error}): fetch it again."
        ) from error
    bpe.no_padding()
    bpe.no_truncation()
    return JsonTokenizer(bpe, context, rule)


def padding_id(path: Path) -> int | None:
    """The id that fills up, from the tokenizer_config.json beside a tokenizer.json or from its own padding, or None."""
    try:
        bpe = Pieces.from_str(path.read_text(encoding="utf-8"))
        beside = path.parent / TOKENIZER_CONFIG
        named = json.loads(beside.read_text(encoding="utf-8")).get("pad_token") if beside.exists() else None
    except Exception:  # json_tokenizer tells what is wrong with the file
        return None
    token = named.get("content") if isinstance(named, dict) else named
    found = bpe.token_to_id(token) if isinstance(token, str) else None
    padding = bpe.padding or {}
    return int(found) if found is not None else padding.get("pad_id")


def fitting_tokenizer(vocab_size: int, context: int, truncation: Truncation = "keep_end") -> Tokenizer:
    """CLIP's tokenizer for a vocabulary of its size, none for any other."""
    if vocab_size == CLIP_VOCABULARY:
        return ClipTokenizer(context, TokenizerRule("clip", truncation))
    return NoTokenizer(vocab_size, context, f"CLIP's own has {CLIP_VOCABULARY:,}")


def _filled(rows: Iterable[list[int]], context: int, rule: TokenizerRule, end: int | None) -> Tensor:
    """Rows of ids as a tensor (B, context): cut by the rule, with `end` last if given, filled up with padding."""
    cut = []
    for row in rows:
        kept = list(row[:context])
        if end is not None and len(row) > context and rule.truncation == "keep_end":
            kept[-1] = end
        cut.append(kept + [rule.pad] * (context - len(kept)))
    return torch.tensor(cut, dtype=torch.long)


def _batch(texts: str | list[str]) -> list[str]:
    batch = [texts] if isinstance(texts, str) else list(texts)
    if not batch:
        raise StudioError("The list of texts is empty: give at least one.")
    return batch


def _whole(text: str) -> str:
    """The text without lone surrogates, which broken input may hold and which cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=1)
def _clip_bpe() -> SimpleTokenizer:
    return SimpleTokenizer()


def _cleaner(name: str) -> Callable[[str], str]:
    return get_clean_fn(name)
