"""Words that a model of English can hardly know: those in other scripts than Latin, and emoji."""

import unicodedata

# From here on other scripts begin; below are Latin letters and signs that go with them, as µ and º.
_FIRST_OTHER = 0x370
# From here on there are emoji among the symbols; below are ™, №, arrows and signs of mathematics.
_FIRST_PICTURE = 0x2300


def foreign_words(text: str) -> list[str]:
    """Words with a letter that is not Latin, and emoji, in their order, each once; full-width letters are Latin.

    Any text has tokens in a byte-level vocabulary, so it is not refused; but captions in English hardly held these.
    """
    return list(
        dict.fromkeys(word for word in _words(text) if any(_kind(part) in ("other", "picture") for part in word))
    )


def _words(text: str) -> list[str]:
    """Runs of letters and runs of pictures; what joins or varies characters belongs to the run that it stands in."""
    words, last = [""], False
    for character in text:
        kind = _kind(character)
        if kind != "joint":
            if not kind or (kind == "picture") != last:
                words.append("")
            last = kind == "picture"
        if kind:
            words[-1] += character
    return [word for word in words if word]


def _kind(character: str) -> str:
    """ "latin", "other" (of another script), "picture", "joint" (marks, joiners, selectors), or "" between words."""
    category, number = unicodedata.category(character), ord(character)
    if category[0] == "M" or category == "Cf":
        return "joint"
    if category[0] == "L":
        return "latin" if number < _FIRST_OTHER or "LATIN" in unicodedata.name(character, "") else "other"
    return "picture" if category in ("So", "Sk") and number >= _FIRST_PICTURE else ""
