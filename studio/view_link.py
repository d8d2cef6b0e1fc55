"""What drawings of the tabs keep in the address by themselves; the page reads and writes it (viewer/view_link.js).

Here it is only held against what there is, so that a value that cannot be is told as it is for other settings.
"""

from studio.tab_link import Below, Field, OneOf, Within

# Components as the keys name them: elem_ids whose first "-" is a ".".
STRIPS = ("sparsity.maps", "sparsity.segments-left", "sparsity.segments-right", "explain.strip", "intervene.maps")
_STRIP = (
    Field("drawing", OneOf(("patches", "smooth")), "patches"),
    Field("ramp", OneOf(("linear", "root")), "root"),
    Field("opacity", Within(0, 100, whole=True), 75),
)
_TOKENS = (
    Field("map", OneOf(("weights", "first", "subtracted")), "weights"),
    Field("scale", OneOf(("raw", "uniform")), "uniform"),
    Field("start", OneOf(("in", "aside")), "in"),
    Field("ramp", OneOf(("linear", "root")), "root"),
    Field("head-0", Below(), 0),
    Field("head-1", Below(), 0),
)
_LAMBDAS = (
    Field("axis", OneOf(("samples", "steps")), "samples"),
    Field("terms", OneOf((True, False)), False),
    Field("layer", Below(), None),
)
# How many there are depends on the models: heads of the left and the right one, 0 being their mean, and layers.
DRAWN_HEADS, DRAWN_LAYER = ("text.maps.head-0", "text.maps.head-1"), "lambda.chart.layer"
# Names of models whose runs are hidden, one a key.
DRAWN_HIDDEN = "lambda.chart.hidden"
VIEWS = tuple(
    Field(f"{name}.{field.key}", field.rule, field.default)
    for name, fields in (
        *((strip, _STRIP) for strip in STRIPS),
        ("text.maps", _TOKENS),
        ("lambda.chart", _LAMBDAS),
    )
    for field in fields
)
