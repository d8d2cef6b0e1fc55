"""A button that takes away what stands beside it, for charts; maps have one of their own."""

from pathlib import Path

import gradio as gr

from studio.viewer import Answer, served

_HERE = Path(__file__).resolve().parent
SCRIPTS = ("save", "take_button")


def take_button(what: str, take: Answer, elem_id: str) -> gr.HTML:
    """The button as a component. Its value is the name of a result, as `ResultStore.keep` gives it, or None.

    While there is none the button is hidden. Pressed, it saves figure, arrays, numbers and recipe as a zip and says so.

    Args:
        what: what is taken away, for screen readers: "the curves of the duel".
        take: answers the request of the browser, as `studio.take_strip` does; anyone can call it.
        elem_id: of the component.
    """
    return gr.HTML(
        None,
        html_template=(_HERE / "take_button.html").read_text(encoding="utf-8"),
        css_template=(_HERE / "take_button.css").read_text(encoding="utf-8"),
        js_on_load="\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS),
        server_functions=[served("take_strip", take)],
        what=what,
        elem_id=elem_id,
        apply_default_css=False,
    )
