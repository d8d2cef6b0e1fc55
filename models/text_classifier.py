"""Classes in words -> directions in the joint space, one for each synonym, averaged over templates."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.errors import StudioError
from models.loaded import LoadedModel

SLOT = "{}"
DEFAULT_TEMPLATES = ("a photo of a {}.",)
_TEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class TextClassifier:
    """K classes as S phrases, one or more for each class.

    Attributes:
        classes: the name of each class, its first phrase.
        phrases: all phrases.
        owners: the class (0 to K - 1) of each phrase.
        embeddings: (S, E), of length 1.
    """

    classes: tuple[str, ...]
    phrases: tuple[str, ...]
    owners: tuple[int, ...]
    embeddings: Tensor


def text_classifier(
    model: LoadedModel, classes: Sequence[str], templates: Sequence[str] = DEFAULT_TEMPLATES
) -> TextClassifier:
    """Embed classes by `model`, as CLIP's zero-shot classifiers are made (Radford et al., ICML 2021).

    Each phrase is put into every template and embedded; the embeddings are brought to length 1, averaged over the
    templates, and brought to length 1 again.

    Args:
        model: its text tower and tokenizer are used.
        classes: one class an entry, synonyms with commas between: "person, man, woman".
        templates: texts with one bare `{}`, which is replaced as plain text.

    Raises:
        StudioError: no class, a class without a phrase, no template, or a template without exactly one bare `{}`.
    """
    lines = tuple(phrases_of(line) for line in classes)
    if not lines or not templates:
        raise StudioError(f"{len(lines)} classes and {len(templates)} templates classify nothing: give one of each.")
    for template in templates:
        check_template(template)
    phrases = tuple(phrase for line in lines for phrase in line)
    owners = tuple(index for index, line in enumerate(lines) for _ in line)
    texts = [template.replace(SLOT, phrase) for phrase in phrases for template in templates]
    parts = [texts[start : start + _TEXTS_AT_ONCE] for start in range(0, len(texts), _TEXTS_AT_ONCE)]
    embedded = torch.cat([model.encode_text(model.tokenize(part), normalize=True).float() for part in parts])
    mean = embedded.unflatten(0, (len(phrases), len(templates))).mean(1)
    return TextClassifier(tuple(line[0] for line in lines), phrases, owners, F.normalize(mean, dim=-1))


def check_template(template: str) -> None:
    """Refuses a template that a class cannot be put into by plain replacement.

    Raises:
        StudioError: no `{}`, more than one, or any other brace.
    """
    if template.count(SLOT) != 1 or any(brace in template.replace(SLOT, "") for brace in "{}"):
        raise StudioError(
            f"The template {template!r} must hold one bare {SLOT} where the class goes, and no other brace: write it "
            f"as in {DEFAULT_TEMPLATES[0]!r}."
        )


def phrases_of(line: str) -> tuple[str, ...]:
    """The synonyms of a class, with commas between, each once.

    Raises:
        StudioError: there is no word between the commas.
    """
    phrases = tuple(dict.fromkeys(part.strip() for part in line.split(",") if part.strip()))
    if not phrases:
        raise StudioError(f"The class {line!r} holds no word: write one, or synonyms with commas between.")
    return phrases
