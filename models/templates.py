"""Prompt templates by name: the sets that published zero-shot numbers were made with, as plain texts with one slot."""

from collections.abc import Iterable
from dataclasses import dataclass

from open_clip.zero_shot_metadata import OPENAI_IMAGENET_TEMPLATES, SIMPLE_IMAGENET_TEMPLATES

from models.errors import StudioError
from models.plain import nearest
from models.text_classifier import DEFAULT_TEMPLATES, SLOT, check_template


@dataclass(frozen=True)
class TemplateSet:
    """Templates under the name that stands beside a result.

    Attributes:
        name: of the set, or the template itself where a single one was written out.
        texts: each holds one bare `{}`, where the class goes by plain replacement.

    Raises:
        StudioError: no template, or one without exactly one bare `{}`.
    """

    name: str
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.texts:
            raise StudioError(f"The template set {self.name!r} is empty: give it at least one template.")
        for text in self.texts:
            check_template(text)


def _texts(fillers: Iterable) -> tuple[str, ...]:
    """open_clip keeps its templates as functions of the class name; given the slot they return the template."""
    return tuple(filler(SLOT) for filler in fillers)


# openai-80 is CLIP's set for ImageNet; openai-7 is the short one of the same authors, which SLIP and SynthCLIP use.
TEMPLATE_SETS = {
    found.name: found
    for found in (
        TemplateSet("openai-80", _texts(OPENAI_IMAGENET_TEMPLATES)),
        TemplateSet("openai-7", _texts(SIMPLE_IMAGENET_TEMPLATES)),
        TemplateSet("plain", DEFAULT_TEMPLATES),
        TemplateSet("scenes", ("a photo of a {}",)),
    )
}


def template_set(asked: str) -> TemplateSet:
    """The set of a name, or a set of one for a template that is written out.

    Raises:
        StudioError: neither a known name nor a template with one bare `{}`.
    """
    if asked in TEMPLATE_SETS:
        return TEMPLATE_SETS[asked]
    if any(brace in asked for brace in SLOT):
        return TemplateSet(asked, (asked,))
    raise StudioError(
        f"{asked!r} is no set of templates{nearest(asked, TEMPLATE_SETS)}: choose {', '.join(TEMPLATE_SETS)}, or write "
        f"one template with {SLOT} where the class goes."
    )
