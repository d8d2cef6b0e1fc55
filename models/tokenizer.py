"""A small byte-level BPE tokenizer for one domain: any text is accepted, unseen words are told.

CLIP's own vocabulary has 49,408 entries, which at a small width would be most of a checkpoint. A tokenizer trained on
the domain's captions needs about a thousand, falls back to bytes for whatever it never saw, and keeps CLIP's
convention that the end-of-text id is the highest, which is where the text tower is read out.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from tokenizers import Tokenizer
from torch import Tensor

from models.errors import CheckpointError, StudioError
from models.scripts import foreign_words
from models.vocabulary import TokenizerRule

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_PAD = "<pad>"


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case, punctuation left out."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class DomainTokenizer:
    """Texts -> ids (B, context): start, byte-level BPE pieces, end, padding with 0.

    Attributes:
        bpe: the trained byte-level BPE; id 0 is padding.
        words: every word of the captions it was trained on.
        context: number of positions, N.
    """

    bpe: Tokenizer
    words: frozenset[str]
    context: int

    @property
    def rule(self) -> TokenizerRule:
        """What a checkpoint says of it."""
        return TokenizerRule("domain")

    @property
    def start_id(self) -> int:
        """Id of the start-of-text token, one below the highest."""
        return self.bpe.get_vocab_size()

    @property
    def end_id(self) -> int:
        """Id of the end-of-text token, the highest."""
        return self.bpe.get_vocab_size() + 1

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.bpe.get_vocab_size() + 2

    def __call__(self, texts: str | list[str]) -> Tensor:
        """Ids (B, context) of one text or several; too long a text keeps its end token and loses its tail.

        Raises:
            StudioError: no text at all.
        """
        batch = [texts] if isinstance(texts, str) else list(texts)
        if not batch:
            raise StudioError("The list of texts is empty: give at least one.")
        ids = torch.zeros(len(batch), self.context, dtype=torch.long)
        for row, text in zip(ids, batch, strict=True):
            pieces = self._pieces(text)[: self.context - 2]
            row[: len(pieces) + 2] = torch.tensor([self.start_id, *pieces, self.end_id])
        return ids

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text as they are read, start and end included."""
        kept = self._pieces(text)[: self.context - 2]
        return ["<start>", *(self.bpe.decode([i]).strip() or "·" for i in kept), "<end>"]

    def unknown_words(self, text: str) -> list[str]:
        """Words that no training caption held, in their order; the model has learned nothing of them."""
        return list(dict.fromkeys(word for word in words_of(text) if word not in self.words))

    def foreign_words(self, text: str) -> list[str]:
        """Words in other scripts, and emoji, that are read as bytes; but for those that are unknown words anyway."""
        unknown = self.unknown_words(text)
        bare = [word for word in foreign_words(text) if len(self._pieces(word)) > len(word)]
        return [word for word in bare if not any(part in word.lower() for part in unknown)]

    def cut_text(self, text: str) -> str:
        """The tail of a text that does not fit into the context and is not seen, or ""."""
        return self.bpe.decode(self._pieces(text)[self.context - 2 :]).strip()

    def _pieces(self, text: str) -> list[int]:
        # Lone surrogates, as broken input may hold them, are no characters and cannot be encoded.
        return self.bpe.encode(text.encode("utf-8", "replace").decode("utf-8")).ids

    def save(self, path: Path) -> None:
        """Write everything into one JSON file."""
        data = {"context": self.context, "words": sorted(self.words), "bpe": json.loads(self.bpe.to_str())}
        path.write_text(json.dumps(data, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def load_tokenizer(path: Path) -> DomainTokenizer:
    """Read what `DomainTokenizer.save` wrote.

    Raises:
        CheckpointError: the file is missing or is not such a file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return DomainTokenizer(
            Tokenizer.from_str(json.dumps(data["bpe"])),
            frozenset(map(str, data["words"])),
            int(data["context"]),
        )
    except FileNotFoundError as error:
        raise CheckpointError(f"The tokenizer {path.name} is missing from {path.parent}: copy it there.") from error
    except Exception as error:  # tokenizers raises bare Exception for a malformed model
        raise CheckpointError(f"{path} is not a tokenizer of this project ({error}): export it again.") from error


def train_tokenizer(captions: Iterable[str], vocab_size: int = 1024, context: int = 32) -> DomainTokenizer:
    """Train a tokenizer on captions; the same captions in the same order give the same tokenizer.

    Args:
        captions: any number of texts.
        vocab_size: number of ids, start and end included; at least 260.
        context: number of positions, N; at least 3.

    Raises:
        StudioError: a size that cannot hold the bytes, or a context without room for a piece.
    """
    if vocab_size < 260 or context < 3:
        raise StudioError(
            f"A vocabulary of {vocab_size} with context {context} is too small: bytes and special tokens need 260 ids, "
            "and start, one piece and end need 3 positions."
        )
    texts = list(captions)
    bpe = Tokenizer(tokenizers.models.BPE())
    bpe.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.NFC(), tokenizers.normalizers.Lowercase()])
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size - 2,
        special_tokens=[_PAD],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return DomainTokenizer(bpe, frozenset(word for text in texts for word in words_of(text)), context)
