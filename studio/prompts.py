"""Texts that a person writes, one a line; or, where nothing is written, one for each object of an example scene."""

from models import StudioError
from studio.examples import Example
from studio.filled import filled_text

MOST_PROMPTS = 6
MOST_CHARACTERS = 2000


def prompts_of(written: str, scene: Example | None) -> list[str]:
    """The prompts, each once, in their order.

    Args:
        written: one prompt a line; commas belong to a prompt.
        scene: the example scene that is looked at, if it is one; its objects stand in where nothing is written.

    Raises:
        StudioError: nothing written for a picture that is no example scene, or too many or too long prompts.
    """
    lines = filled_text(written, "Texts").splitlines()
    prompts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not prompts and scene is not None:
        prompts = [f"a photo of {with_article(name)}" for name in scene.objects][:MOST_PROMPTS]
    if not prompts:
        raise StudioError(
            "There is no text to explain, and what is on this picture is not known here: write a prompt, one a line."
        )
    if len(prompts) > MOST_PROMPTS:
        raise StudioError(f"{len(prompts)} prompts are too many: at most {MOST_PROMPTS} are taken, leave some out.")
    if max(map(len, prompts)) > MOST_CHARACTERS:
        raise StudioError(f"A prompt is longer than {MOST_CHARACTERS} characters: shorten it.")
    return prompts


def with_article(name: str) -> str:
    """A name with "a" or "an", by its first letter."""
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"
