"""What a person should know of texts as a model reads them: what it never learned, hardly knows, or does not see."""

from collections.abc import Sequence
from dataclasses import dataclass

from models.vocabulary import Tokenizer


@dataclass(frozen=True)
class Remarks:
    """What is to be said of some texts together; each thing once, in its order.

    Attributes:
        unknown: words that the model has learned nothing of, where that is known.
        foreign: words in other scripts, and emoji, that a model of English hardly knows.
        cut: ends of texts that are too long and are not read.
        positions: how many tokens are read.
    """

    unknown: tuple[str, ...]
    foreign: tuple[str, ...]
    cut: tuple[str, ...]
    positions: int

    @property
    def clauses(self) -> list[str]:
        """The same in words, to follow the model's name; none where all is well."""
        said = [f"never seen in training: {', '.join(self.unknown)}"] if self.unknown else []
        if self.foreign:
            said.append(f"hardly known to a model of English captions: {', '.join(self.foreign)}")
        return said + [f"too long for {self.positions} positions, not read: “{tail}”" for tail in self.cut]


def remarks_on(tokenizer: Tokenizer, texts: Sequence[str]) -> Remarks:
    """Remarks on texts without lone surrogates, which could not be sent to a page."""
    unknown = dict.fromkeys(word for text in texts for word in tokenizer.unknown_words(text))
    foreign = dict.fromkeys(word for text in texts for word in tokenizer.foreign_words(text))
    cut = dict.fromkeys(tail for text in texts if (tail := tokenizer.cut_text(text)))
    return Remarks(tuple(unknown), tuple(foreign), tuple(cut), tokenizer.context)
