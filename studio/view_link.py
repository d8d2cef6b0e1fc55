"""What drawings of the tabs keep in the address by themselves; the page reads and writes it (viewer/view_link.js).

Here it is only held against what there is, so that a value that cannot be is told as it is for other settings.
"""

from studio.tab_link import Field, OneOf, Within

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
    Field("head-0", Within(0, 64, whole=True), 0),
    Field("head-1", Within(0, 64, whole=True), 0),
)
_LAMBDAS = (
    Field("axis", OneOf(("samples", "steps")), "samples"),
    Field("terms", OneOf((True, False)), False),
    Field("layer", Within(0, 64, whole=True), None),
)
VIEWS = tuple(
    Field(f"{name}.{field.key}", field.rule, field.default)
    for name, fields in (
        *((strip, _STRIP) for strip in STRIPS),
        ("text.maps", _TOKENS),
        ("lambda.chart", _LAMBDAS),
    )
    for field in fields
)
