"""Figures and statistics without the page: `python -m studio {render,batch}`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from models.errors import StudioError

_EXAMPLES = """examples:
  python -m studio render recipe.json figure/
  python -m studio render recipe.json figure.svg --picture cat.jpg
  python -m studio render recipe.json figure.zip --picture cat.jpg --model mine=runs/mine/checkpoint
  python -m studio render recipe.json figure/ --mask cat.mask.png
  python -m studio render recipe.json figure/ --log runs/mine/log.jsonl
  python -m studio batch photographs/ --models clip-scenes diffclip-scenes --out stats.csv
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it was done, 1 with a sentence when it could not be."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except StudioError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m studio",
        description="Figures and statistics of attention maps without the page.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="{render,batch}")
    render = commands.add_parser(
        "render",
        help="draw a recipe again",
        description="Draw a recipe again: PNG, SVG, arrays, numbers and the recipe with what was found now. On the "
        "machine and with the versions and the number of threads that made it, the files are equal byte for byte.",
    )
    render.add_argument("recipe", type=Path, metavar="RECIPE", help="recipe.json, as the page gives it")
    render.add_argument(
        "out", type=Path, metavar="OUT", help="a folder, or one file by its ending: .zip .png .svg .npz"
    )
    render.add_argument("--picture", type=Path, metavar="FILE", help="the picture; not needed for an example scene")
    render.add_argument("--mask", type=Path, metavar="FILE", help="the mask that was uploaded, if it was one")
    render.add_argument(
        "--other", type=Path, metavar="FILE", help="the picture whose A2 was put in; not needed for an example scene"
    )
    render.add_argument(
        "--model", action="append", default=[], metavar="NAME=SOURCE", help="where the recipe's model NAME is"
    )
    render.add_argument(
        "--log",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a log that was uploaded, or was named by its folder; several are told apart by their content",
    )
    render.add_argument(
        "--anyway", action="store_true", help="draw although picture, weights or logs are others; it is said"
    )
    render.set_defaults(run=_render)
    batch = commands.add_parser(
        "batch",
        help="statistics over many pictures",
        description="Statistics of what the read-out token reads, by layer, over all pictures of a folder, with "
        "bootstrap 95 %% intervals and, for what suggests cleaning, the same with A2 shuffled. NAME.mask.png beside "
        "a picture marks its objects. What was worked out is kept beside OUT, so a second run goes on from there.",
    )
    batch.add_argument("folder", type=Path, metavar="FOLDER", help="pictures, in folders within it too")
    batch.add_argument("--models", nargs="+", required=True, metavar="MODEL", help="names, folders or files")
    batch.add_argument("--out", type=Path, required=True, metavar="OUT", help="stats.csv or stats.json")
    batch.add_argument("--heads", action="store_true", help="each head too, not only the mean over heads")
    batch.add_argument("--seed", type=int, default=0, help="of the bootstrap (default 0)")
    batch.set_defaults(run=_batch)
    return parser


def _render(options: argparse.Namespace) -> int:
    # Imported here, so that --help needs no model library.
    from studio.examples import load_gallery
    from studio.export import written
    from studio.recipe import Recipe
    from studio.redraw import recipe_file, redraw

    recipe = recipe_file(options.recipe)
    sources = dict(_pair(text, [found.name for found in recipe.models]) for text in options.model)
    if isinstance(recipe, Recipe):
        files = redraw(recipe, load_gallery(), options.picture, sources, anyway=options.anyway)
    else:
        from studio.redraw_tab import redraw_tab

        given = {name: getattr(options, name) for name in ("picture", "mask", "other") if getattr(options, name)}
        files = redraw_tab(recipe, load_gallery(), given, sources, logs=options.log, anyway=options.anyway)
    for path in written(files, options.out):
        print(path)
    return 0


def _pair(text: str, names: Sequence[str]) -> tuple[str, str]:
    """NAME=SOURCE in two; a name of the recipe may hold "=", as that of a model that was brought with settings does."""
    known = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
    name, equals, source = (known, "=", text[len(known) + 1 :]) if known else text.partition("=")
    if not equals or not name or not source:
        raise StudioError(f"--model {text} names no model and source: write NAME=SOURCE.")
    return name, source


def _batch(options: argparse.Namespace) -> int:
    from studio.batch import batch

    try:
        print(batch(options.folder, options.models, options.out, heads=options.heads, seed=options.seed))
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from what is kept beside OUT.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
