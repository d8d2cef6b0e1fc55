"""A recipe drawn again, here or on another machine: what it was made from is checked before anything is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote

from PIL import Image

from models import LoadedModel, StudioError, load_model, open_picture
from studio.examples import Example, picture_token
from studio.export import figure_files, recipe_of, relevances_of
from studio.recipe import Found, Picture, Recipe, read_recipe, recipe_data
from studio.registry import Entry
from studio.service import Service, weights_sha256
from studio.speaking import RelevanceStore
from studio.tab_recipe import TabRecipe, read_tab_recipe

_MOST_BYTES = 8 * 2**20  # a mask that was painted is in the recipe


def recipe_file(path: Path) -> Recipe | TabRecipe:
    """The recipe in a file, of Compare or of another tab.

    Raises:
        StudioError: there is no such file, or it is no recipe.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise StudioError(f"{path} is larger than a recipe can be: choose recipe.json.")
        text = path.read_bytes()
    except OSError as error:
        raise StudioError(f"{path} cannot be read ({error.strerror}): choose recipe.json.") from error
    data = recipe_data(text)
    return read_tab_recipe(data) if isinstance(data, dict) and "tab" in data else read_recipe(text)


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
    image = picture_given(recipe.picture, examples, picture)
    service = service_for(recipe.models, examples, sources or {})
    token = picture_token(image)
    drawn = replace(recipe.picture, sha256=token, width=image.width, height=image.height)
    again = recipe_of(service, recipe.view, drawn)
    differing = differences((recipe.picture, recipe.models), (again.picture, again.models), anyway=anyway)
    looks = {name: service.look(name, image) for name in recipe.view.models}
    store = RelevanceStore(service)
    worked_out = partial(store.relevance, image=image), partial(store.control, image=image)
    relevances = relevances_of(recipe.view, token, *worked_out)
    return figure_files(again, looks, relevances, image, differing)


def picture_given(
    wanted: Picture, examples: Sequence[Example], file: Path | None, option: str = "picture"
) -> Image.Image:
    """The picture in a file, or the example that is wanted.

    Raises:
        StudioError: no file, and it is no example; the sentence names the option of the command.
    """
    if file is not None:
        return open_picture(file)
    for example in examples:
        if example.token == wanted.sha256:
            return open_picture(example.picture)
    raise StudioError(
        f"The recipe's {option} {wanted.name or wanted.sha256} does not come with the project: give it with "
        f"--{option} FILE."
    )


def service_for(models: Sequence[Found], examples: Sequence[Example], sources: Mapping[str, str]) -> Service:
    """A recipe's models under its names.

    Raises:
        StudioError: a source for a model that it does not have, or none for one that was a person's file.
    """
    names = [found.name for found in models]
    unknown = [name for name in sources if name not in names]
    if unknown:
        raise StudioError(f"The recipe has no model {unknown[0]!r}: it has {', '.join(names)}.")
    service = Service([], examples)
    for found in models:
        source = sources.get(found.name) or found.source
        if not source:
            raise StudioError(
                f"The model {found.name!r} ({found.title}) was a file of the one who made the recipe: "
                f"give it with --model {quote(f'{found.name}=FILE')}."
            )
        service.registry.start_with(found.name, Entry(found.title, None, partial(_loaded, source, found)))
    return service


def _loaded(source: str, found: Found) -> LoadedModel:
    """The model with the settings of the recipe, under the recipe's title where it is the recipe's model.

    A model that somebody brought is named after its settings and its file, which may have another name here.
    """
    model = load_model(source, **found.overrides.settings())
    same = (model.origin.given, weights_sha256(model)) == (found.given, found.sha256)
    return replace(model, title=found.title) if same else model


_Made = tuple[Picture | None, Sequence[Found]]


def differences(then: _Made, now: _Made, *, anyway: bool) -> str:
    """Sentences for everything that is not as it was when the recipe was made, for the figure to say; "" for nothing.

    Args:
        then: the picture, None where it is of none, and the models of the recipe.
        now: those that are at hand.
        anyway: whether they may differ.

    Raises:
        StudioError: they differ and may not.
    """
    said = []
    if now[0] is not None and then[0] is not None and now[0].sha256 != then[0].sha256:
        said.append(
            f"The picture is not that of the recipe: its pixels have sha256 {now[0].sha256[:12]}…, "
            f"the recipe's {then[0].sha256[:12]}…."
        )
    known = {found.name: found for found in then[1]}
    for found in now[1]:
        was = known[found.name]
        if not was.sha256 or found.sha256 != was.sha256:
            said.append(
                f"The weights of {was.title} are not those of the recipe: sha256 {found.sha256[:12] or 'unknown'}, "
                f"the recipe's {was.sha256[:12] or 'unknown'}."
            )
        if (found.preprocess, found.given) != (was.preprocess, was.given):
            said.append(f"{was.title} was loaded with other settings: {'; '.join(was.given) or 'its own'}.")
    if said and not anyway:
        raise StudioError(f"{' '.join(said)} Give the files of the recipe, or draw with --anyway.")
    return " ".join(said)
