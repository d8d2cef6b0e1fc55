"""The tabs' settings in an address are read back; what a field cannot be is left out with its rule."""

from typing import Any

import pytest

from studio.tab_link import (
    MOST_TEXT,
    Below,
    Edits,
    Field,
    Named,
    OneOf,
    Rule,
    SomeOf,
    Within,
    Words,
    read_settings,
    written,
)


def read(rule: Rule, *texts: str, count: int = 0) -> tuple[Any, tuple[str, ...]]:
    """What the field becomes, None where it stays, and what is said."""
    settings = read_settings(
        [("tab.field", text) for text in texts], [Field("tab.field", rule, None)], {"tab.field": count}
    )
    return settings.values.get("tab.field"), settings.remarks


@pytest.mark.parametrize(
    ("rule", "texts", "value"),
    [
        (OneOf(("qk", "qq+kk")), ["qq+kk"], "qq+kk"),
        (OneOf((True, False)), ["false"], False),
        (SomeOf(("softmax", "top-k", "identity")), ["identity", "softmax"], ["identity", "softmax"]),
        (SomeOf(("softmax", "top-k")), [""], []),
        (SomeOf(("softmax", "top-k")), ["top-k", "softmax", "top-k"], ["top-k", "softmax"]),
        (Within(1, 2), ["1.35"], 1.35),
        (Within(4, 128, whole=True), ["12"], 12),
        (Below(), ["3"], 3),
        (Below(("mean",)), ["mean"], "mean"),
        (Words(), [""], ""),
        (Words(), ["a cat\na dog"], "a cat\na dog"),
        (Named(), ["0a" * 16], "0a" * 16),
        (Edits(), ["vision.lam.0.0.5"], "vision.lam.0.0.5"),
    ],
)
def test_what_a_field_can_be_is_read(rule: Rule, texts: list[str], value: Any) -> None:
    assert read(rule, *texts, count=4) == (value, ())


@pytest.mark.parametrize(
    ("rule", "texts", "said"),
    [
        (OneOf(("qk", "qq")), ["QK"], "one of qk, qq"),
        (OneOf((True, False)), ["1"], "one of true, false"),
        (SomeOf(("softmax", "top-k")), ["softmax", "gone"], "one of softmax, top-k"),
        (Within(1, 2), ["2.01"], "a number from 1 to 2"),
        (Within(1, 2), ["nan"], "a number from 1 to 2"),
        (Within(1, 2), ["١"], "a number from 1 to 2"),
        (Within(4, 128, whole=True), ["12.5"], "a whole number from 4 to 128"),
        (Within(0, 10**6, whole=True), ["inf"], "a whole number from 0 to 1000000"),
        (Below(), ["4"], "a whole number from 0 to 3"),
        (Below(("mean",)), ["-1"], "mean or a whole number from 0 to 3"),
        (Below(("mean",)), ["٣"], "mean or a whole number from 0 to 3"),
        (Words(), ["a" * (MOST_TEXT + 1)], f"at most {MOST_TEXT} characters"),
        (Named(), ["0A" * 16], "the sha256 of a picture as this page writes it"),
        (Named(), ["0a" * 15], "the sha256 of a picture as this page writes it"),
        (Edits(), ["_" * (MOST_TEXT + 1)], f"at most {MOST_TEXT} characters"),
    ],
)
def test_what_a_field_cannot_be_is_left_out_with_its_rule(rule: Rule, texts: list[str], said: str) -> None:
    value, remarks = read(rule, *texts, count=4)
    assert value is None
    assert len(remarks) == 1
    assert remarks[0].startswith(f"The link's tab.field “{texts[-1][:80]}”")
    assert remarks[0].endswith(f"is left out: it is not {said}.")


def test_a_layer_of_models_that_could_not_be_loaded_is_left_out() -> None:
    assert read(Below(), "0") == (None, ("The link's tab.field “0” is left out: it is not there.",))


def test_keys_of_others_and_settings_without_a_value_are_left_alone() -> None:
    fields = [Field("duel.steps", Within(4, 40), 14), Field("tab", OneOf(("a", "b")), "a")]
    settings = read_settings([("duel.depth", "x"), ("p", "a1"), ("duel.steps", ""), ("tab", "")], fields)
    assert settings.values == {}
    assert settings.remarks == ()
    assert settings.left_out == ()
    wrong = read_settings([("duel.steps", "9"), ("duel.steps", "99"), ("tab", "b")], fields)
    assert (wrong.left_out, wrong.values) == (("duel.steps",), {"tab": "b"})


def test_of_a_setting_that_is_named_twice_the_last_one_counts() -> None:
    assert read(Within(0, 9), "1", "2") == (2, ())


def test_values_are_written_as_the_browser_writes_them() -> None:
    assert [written(each) for each in (True, False, None, 16, 1.0, 1.5, "qq+kk")] == [
        "true", "false", "", "16", "1", "1.5", "qq+kk",
    ]  # fmt: skip
