"""A link is read back as it was written; what it cannot mean is left out with a sentence."""

from models import LoadedModel
from studio.asked import LONGEST_TEXT
from studio.link import Link, beyond, read_link

TOKEN = "0123456789abcdef" * 2
MODELS = ("clip-scenes", "a.b/own.model:x")


def read(*pairs: tuple[str, str]) -> Link:
    return read_link(pairs, lambda name: name in MODELS)


def test_a_whole_link_is_read() -> None:
    link = read(
        ("__theme", "dark"),
        ("picture", TOKEN),
        ("left", MODELS[0]),
        ("right", MODELS[1]),
        ("p", "a1.mean.clip-scenes"),
        ("p", "weights.3.own.a.b/own.model:x"),
        ("p", "relevance.mean.own.control.clip-scenes"),
        ("p", "relevance.mean.control.clip-scenes"),
        ("layer", "5"),
        ("query", "2.11.a.b/own.model:x"),
        ("direction", "read by"),
        ("alpha", "1.52"),
        ("source", "qq+kk"),
        ("scale", "raw"),
        ("ramp", "linear"),
        ("drawing", "smooth"),
        ("aside", "sinks"),
        ("text", " a cat "),
        ("from", "3"),
        ("overview", "entropy"),
        ("over", "all"),
    )
    assert (link.picture, link.left, link.right, link.remarks) == (TOKEN, *MODELS, ())
    assert link.state == {
        "panels": [
            {"model": MODELS[0], "kind": "a1", "head": "mean"},
            {"model": MODELS[1], "kind": "weights", "head": 3, "own": True},
            {"model": MODELS[0], "kind": "relevance", "head": "mean", "own": True, "control": True},
            {"model": MODELS[0], "kind": "relevance", "head": "mean", "control": True},
        ],
        "layer": 5,
        "query": [2, 11, MODELS[1]],
        "direction": "read by",
        "alpha": 1.5,
        "source": "qq+kk",
        "scale": "raw",
        "ramp": "linear",
        "drawing": "smooth",
        "aside": "sinks",
        "text": "a cat",
        "from": 3,
        "overview": "entropy",
        "over": "all",
    }


def test_no_link_asks_for_nothing() -> None:
    link = read(("__theme", "dark"))
    assert (link.picture, link.state, link.remarks) == ("", {}, ())


def test_what_cannot_be_is_left_out() -> None:
    link = read(
        ("layer", "-1"),
        ("layer", "٣"),
        ("from", "1e9"),
        ("alpha", "nan"),
        ("source", "qv"),
        ("scale", "log"),
        ("query", "1.2"),
        ("query", "1.x.clip-scenes"),
        ("aside", ""),
        ("p", "a1.mean.clip-scenes"),
    )
    assert link.state == {}, "one panel alone is no bench either"


def test_each_setting_that_is_left_out_is_told_with_its_rule() -> None:
    wrong = {"layer": "five", "from": "-2", "alpha": "9", "scale": "log", "query": "1.2.gone"}
    link = read(*wrong.items(), ("ramp", "linear"))
    assert link.state == {"ramp": "linear"}
    assert all(any(f"{key} “{value}”" in remark for remark in link.remarks) for key, value in wrong.items())
    assert len(link.remarks) == len(wrong)
    assert "The link's scale “log” is left out: it is not raw or uniform or row." in link.remarks
    assert "The link's alpha “9” is left out: it is not a number from 1 to 2." in link.remarks


def test_a_swipe_is_two_panels_counted_from_one_and_how_much_the_left_one_covers() -> None:
    assert read(("swipe", "1.4.35")).state == {"swipe": [0, 3, 0.35]}
    for wrong in ("1.1.50", "0.1.50", "1.5.50", "1.2.101", "1.2", "1.2.3.4", "a.b.c", "1.2.-5"):
        link = read(("swipe", wrong))
        assert link.state == {}
        assert link.remarks == (
            f"The link's swipe “{wrong}” is left out: it is not “left.right.percent” of two panels, counted from 1.",
        )


def test_opacity_is_percent_and_a_text_that_is_too_long_is_cut_with_a_sentence() -> None:
    assert read(("opacity", "60")).state == {"opacity": 0.6}
    for wrong in ("101", "-1", "0.6"):
        link = read(("opacity", wrong))
        assert link.state == {}
        assert "percent from 0 to 100" in link.remarks[0]
    link = read(("text", "a" * (LONGEST_TEXT + 1)))
    assert link.state["text"] == "a" * LONGEST_TEXT
    assert "longer than" in link.remarks[0]
    assert read(("text", "a" * LONGEST_TEXT)).remarks == ()


def test_settings_that_are_absent_or_empty_are_not_told() -> None:
    assert read(("aside", ""), ("alpha", "")).remarks == ()


def test_a_model_that_is_not_here_is_named() -> None:
    link = read(("left", "gone"), ("p", "a1.mean.gone"), ("p", "<b>"), ("right", MODELS[0]))
    assert (link.left, link.right) == ("", MODELS[0])
    assert any("“gone”" in remark for remark in link.remarks)
    assert any("“a1.mean.gone”" in remark for remark in link.remarks)


def test_a_picture_is_named_by_a_hash_and_nothing_else() -> None:
    for name in ("../../etc/passwd", TOKEN.upper(), TOKEN + "0"):
        link = read(("picture", name))
        assert link.picture == ""
        assert link.remarks


def test_more_panels_than_the_bench_has_are_left_out() -> None:
    link = read(*[("p", f"weights.{head}.clip-scenes") for head in range(9)])
    assert [panel["head"] for panel in link.state["panels"]] == [0, 1, 2, 3]
    assert link.remarks == ("The link names 9 panels: the first 4 are looked at.",)


def test_a_link_of_very_many_panels_that_are_not_here_is_told_in_a_few_sentences() -> None:
    link = read(*[("p", f"weights.0.gone-{number}") for number in range(900)])
    assert link.state == {}
    assert len(link.remarks) == 5


def test_only_relevance_has_a_control_that_is_asked_for() -> None:
    link = read(("p", "a1.0.control.clip-scenes"))
    assert link.remarks == (
        "The link's panel “a1.0.control.clip-scenes” cannot be shown here: its model or map is not here.",
    )


def test_what_the_models_of_a_link_do_not_have_is_told(clip: LoadedModel, diffclip: LoadedModel) -> None:
    models = {"clip-scenes": clip, "a.b/own.model:x": diffclip}
    layers, heads = clip.vision.layers, clip.vision.heads
    good = (
        ("layer", f"{layers - 1}"),
        ("p", f"a1.{diffclip.vision.heads - 1}.{MODELS[1]}"),
        ("p", "weights.mean.clip-scenes"),
    )
    assert beyond(read(*good, ("query", "0.0.clip-scenes")), models) == []
    wrong = (("layer", "77"), ("from", "8"), ("p", f"weights.{heads}.clip-scenes"), ("p", "a1.mean.clip-scenes"))
    assert beyond(read(*wrong, ("query", "99.0.clip-scenes")), models) == [
        f"The link's layer 77 is past the last one of these models: shown is {layers - 1}.",
        f"The link's from 8 is past the last one of these models: shown is {layers - 1}.",
        f"The link's head {heads} does not exist in {clip.title}: shown is the mean over heads.",
        f"The link's map a1 does not exist in {clip.title}, which has one map: shown is A.",
        f"The link's query 99.0 is no patch of {clip.title}, which has 4 × 4: shown is CLS.",
    ]
    assert beyond(read(*wrong), {}) == [], "models that are not here are told as such"
