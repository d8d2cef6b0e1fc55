"""Words in other scripts and emoji are told of a vocabulary made for English, and no other texts are."""

import pytest

from models.tokenizer import DomainTokenizer
from models.vocabulary import ClipTokenizer, NoTokenizer

CLIP = ClipTokenizer()
FAMILY = "👨\u200d👩\u200d👧"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a photo of a 猫", ["猫"]),
        ("一只猫，狗", ["一只猫", "狗"]),
        ("قطة على سرير", ["قطة", "على", "سرير"]),
        ("รูปของแมว", ["รูปของแมว"]),
        ("кошка", ["кошка"]),
        ("a 👩🏽\u200d🚀 and a 😀", ["👩🏽\u200d🚀", "😀"]),
        (f"the {FAMILY}❤\ufe0f", [f"{FAMILY}❤\ufe0f"]),
        ("猫 und 猫", ["猫"]),
        ("cat猫 γάτα חתול고양이", ["cat猫", "γάτα", "חתול고양이"]),
    ],
)
def test_words_in_other_scripts_and_emoji_are_told_whole(text: str, told: list[str]) -> None:
    assert CLIP.foreign_words(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a photo of a cat, 3 × 4 – naïve café über “it” …",
        "ｆｕｌｌ ｗｉｄｔｈ ｃａｔ",
        "\u200fcat\u200f",
        "a\x00b",
        "lone \ud800 surrogate",
        "xqzvk straße tiếng Łódź",
        "20 °C © ™ №5 ≥ → 1ª µm",
    ],
)
def test_english_and_what_is_cleaned_or_invisible_is_not_told(text: str) -> None:
    assert CLIP.foreign_words(text) == []


@pytest.mark.parametrize(
    "text", ["猫", "قطة", "แมว", "👩🏽\u200d🚀", FAMILY, "a\x00b", "\ud800", "ａｂｃ", "\u200fcat"]
)
def test_such_texts_still_have_ids_and_pieces(text: str, tokenizer: DomainTokenizer) -> None:
    for each in (CLIP, tokenizer):
        assert each(text).shape == (1, each.context)
        assert len(each.pieces(text)) >= 2
        "".join([*each.pieces(text), *each.foreign_words(text), *each.unknown_words(text)])


def test_a_vocabulary_of_a_domain_tells_an_emoji_and_a_foreign_word_once(tokenizer: DomainTokenizer) -> None:
    assert tokenizer.unknown_words("a cat 猫 😀") == ["猫"]
    assert tokenizer.foreign_words("a cat 猫 😀") == ["😀"]
    assert tokenizer.foreign_words("a red cat") == []


def test_nothing_is_told_where_nothing_is_known() -> None:
    assert NoTokenizer(100, 16).foreign_words("猫") == []
