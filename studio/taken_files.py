"""Whatever a tab shows -> the files in which it is taken away; what is asked for now and what is drawn again agree."""

from studio.chart import Chart
from studio.chart_files import chart_files
from studio.lambda_figure import lambda_chart
from studio.lambda_recipe import LambdaStyle
from studio.lambdas import LambdaRuns
from studio.result_store import Result
from studio.strip import Strip
from studio.strip_files import strip_files
from studio.tab_recipe import TabRecipe
from studio.token_files import token_files
from studio.token_maps import TokenMaps


def files_of(result: Result, recipe: TabRecipe, note: str = "") -> dict[str, bytes]:
    """The files by their names; equal inputs give equal bytes.

    Args:
        result: what is shown.
        recipe: how it is drawn, and what the words in it name.
        note: a further sentence for the figure's caption.

    Raises:
        StudioError: there is nothing to take away; it says why.
    """
    match result:
        case Strip():
            return strip_files(result, recipe, note)
        case Chart():
            return chart_files(result, recipe, note)
        case LambdaRuns():
            assert isinstance(recipe.style, LambdaStyle)
            return chart_files(lambda_chart(result, recipe.style), recipe, note)
        case TokenMaps():
            return token_files(result, recipe, note)
        case _:
            raise TypeError(f"{type(result).__name__} has no files: add it here.")
