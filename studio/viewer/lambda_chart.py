"""λ of every layer over training as lines, in the browser: hover reads, a click marks a step."""

from pathlib import Path
from typing import Any

import gradio as gr

from studio.viewer import Answer, served

_HERE = Path(__file__).resolve().parent
# In this order: later files use the names of earlier ones when they are read.
SCRIPTS = ("save", "view_link", "lambda_scales", "lambda_lines", "lambda_table", "lambda_main")


def lambda_chart(take: Answer, **settings: Any) -> gr.HTML:
    """The component. Its value is what `studio.lambdas.chart_value` makes.

    Its event `select` brings {"run", "step", "side"}: the checkpoint of that step is to be opened left or right.

    Args:
        take: answers a request of the browser for a file of what is shown, as `studio.take_strip` does; anyone can call
            it.
        settings: further settings of `gr.HTML`.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "lambda_chart.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "lambda_chart.css").read_text(encoding="utf-8"),
        server_functions=[served("take_strip", take)],
        js_on_load="\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS),
        apply_default_css=False,
        **settings,
    )
