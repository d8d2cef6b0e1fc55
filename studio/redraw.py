"""A recipe drawn again, here or on another machine: what it was made from is checked before anything is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PIL import Image

from models import StudioError, load_model, open_picture
from studio.examples import Example, picture_token
from studio.export import figure_files, recipe_of, relevances_of
from studio.recipe import Recipe, read_recipe
from studio.registry import Entry
from studio.service import Service
from studio.speaking import RelevanceStore

_MOST_BYTES = 2**20


def recipe_file(path: Path) -> Recipe:
    """The recipe in a file.

    Raises:
        StudioError: there is no such file, or it is no recipe.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise StudioError(f"{path} is larger than a recipe can be: choose recipe.json.")
        return read_recipe(path.read_bytes())
    except OSError as error:
        raise StudioError(f"{path} cannot be read ({error.strerror}): choose recipe.json.") from error


def redraw(
    recipe: Recipe,
    examples: Sequence[Example],
    picture: Path | None = None,
    sources: Mapping[str, str] | None = None,
    *,
    anyway: bool = False,
) -> dict[str, bytes]:
    """The files of a recipe, by running its models on its picture.

    Args:
        recipe: what is drawn.
        examples: pictures that are here, for a recipe of one of them.
        picture: the picture's file, where it is none of those.
        sources: model name -> what `load_model` takes, for models that somebody brought.
        anyway: draw although picture or weights are not those of the recipe; the figure then says so.

    Raises:
        StudioError: the picture or a model is not at hand, or is not that of the recipe.
    """
    image = _picture(recipe, examples, picture)
    service = _service(recipe, examples, sources or {})
    token = picture_token(image)
    drawn = replace(recipe.picture, sha256=token, width=image.width, height=image.height)
    again = recipe_of(service, recipe.view, drawn)
    differing = _differences(recipe, again)
    if differing and not anyway:
        raise StudioError(f"{' '.join(differing)} Give the files of the recipe, or draw with --anyway.")
    looks = {name: service.look(name, image) for name in recipe.view.models}
    store = RelevanceStore(service)
    relevances = relevances_of(recipe.view, token, partial(store.relevance, image=image))
    return figure_files(again, looks, relevances, image, " ".join(differing))


def _picture(recipe: Recipe, examples: Sequence[Example], picture: Path | None) -> Image.Image:
    if picture is not None:
        return open_picture(picture)
    for example in examples:
        if example.token == recipe.picture.sha256:
            return open_picture(example.picture)
    raise StudioError(
        f"The recipe's picture {recipe.picture.name or recipe.picture.sha256} does not come with the project: "
        "give it with --picture FILE."
    )


def _service(recipe: Recipe, examples: Sequence[Example], sources: Mapping[str, str]) -> Service:
    """The recipe's models under the recipe's names."""
    unknown = [name for name in sources if name not in recipe.view.models]
    if unknown:
        raise StudioError(f"The recipe has no model {unknown[0]!r}: it has {', '.join(recipe.view.models)}.")
    service = Service([], examples)
    for name in recipe.view.models:
        source = sources.get(name) or recipe.found(name).source
        if not source:
            raise StudioError(
                f"The model {name!r} ({recipe.found(name).title}) was a file of the one who made the recipe: "
                f"give it with --model {name}=FILE."
            )
        service.registry.start_with(name, Entry(recipe.found(name).title, None, partial(load_model, source)))
    return service


def _differences(recipe: Recipe, again: Recipe) -> list[str]:
    """A sentence for everything that is not as it was when the recipe was made."""
    said = []
    if again.picture.sha256 != recipe.picture.sha256:
        said.append(
            f"The picture is not that of the recipe: its pixels have sha256 {again.picture.sha256[:12]}…, "
            f"the recipe's {recipe.picture.sha256[:12]}…."
        )
    for now in again.models:
        then = recipe.found(now.name)
        if not then.sha256 or now.sha256 != then.sha256:
            said.append(
                f"The weights of {then.title} are not those of the recipe: sha256 {now.sha256[:12] or 'unknown'}, "
                f"the recipe's {then.sha256[:12] or 'unknown'}."
            )
        if (now.preprocess, now.given) != (then.preprocess, then.given):
            said.append(f"{then.title} was loaded with other settings: {'; '.join(then.given) or 'its own'}.")
    return said
