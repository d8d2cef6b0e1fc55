"""How the page looks: Gradio's theme and the styles that go with it."""

from pathlib import Path

from gradio import themes

_CSS = Path(__file__).resolve().parent / "page.css"


def page_css() -> str:
    """Styles of the page outside the viewer."""
    return _CSS.read_text(encoding="utf-8")


def studio_theme() -> themes.Base:
    """The theme. Only weights 400 and 700 are used: of the fonts that come with Gradio, others lack letters."""
    return themes.Default(
        primary_hue="teal",
        neutral_hue="slate",
        text_size="sm",
        spacing_size="sm",
        font=[themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"],
        font_mono=[themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "monospace"],
    ).set(
        button_primary_background_fill="#0b6f6a",
        button_primary_background_fill_dark="#0b6f6a",
        button_primary_background_fill_hover="#095a56",
        button_primary_text_color="white",
        input_placeholder_color="#5f6e7c",
        input_placeholder_color_dark="#94a3b3",
        checkbox_background_color_selected="#0b6f6a",
        checkbox_background_color_selected_dark="#0b6f6a",
        checkbox_border_color_selected="#0b6f6a",
        checkbox_border_color_selected_dark="#5cc9c1",
        slider_color="#0b6f6a",
        slider_color_dark="#2b9c95",
        body_text_color_subdued="#55636f",
        body_text_color_subdued_dark="#a3afbb",
    )
