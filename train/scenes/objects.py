"""The objects that a scene can hold: what each is called and which OpenMoji drawing shows it.

Every drawing was looked at: it can be told from all others at sixteen pixels, it shows one thing, and the
noun is the one that most people would use. Faces, people, hands, flags and symbols are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from models.errors import StudioError


@dataclass(frozen=True)
class NamedObject:
    """A thing with a name.

    `hexcode` is the code of its OpenMoji drawing. `has_top` says that a person sees at once which way is
    up, so that "upside down" means something. `outline` says that the drawing is black lines and nothing
    else, so that no tint shows. `faces` is the side to which the drawing looks ("left" or
    "right"), or None when it looks nowhere.
    """

    name: str
    hexcode: str
    has_top: bool
    outline: bool
    faces: str | None


# name, hexcode, mark: "-" no clear top, "o" no top and an outline only, "t" a top, "l" and "r" a top and a
# look to the left or right.
_TABLE = """
apple 1F34E t | banana 1F34C - | pineapple 1F34D t | lemon 1F34B - | strawberry 1F353 t
watermelon 1F349 - | avocado 1F951 t | eggplant 1F346 - | carrot 1F955 - | mushroom 1F344 t
hamburger 1F354 t | pizza 1F355 - | donut 1F369 - | cupcake 1F9C1 t | ice cream cone 1F366 t
egg 1F95A - | teapot 1FAD6 t | wine glass 1F377 t | cup 2615 t | frying pan 1F373 - | cat 1F408 l
dog 1F415 l | horse 1F40E l | cow 1F404 l | pig 1F416 l | sheep 1F411 l | rooster 1F413 l
penguin 1F427 t | owl 1F989 t | duck 1F986 l | flamingo 1F9A9 l | elephant 1F418 l | giraffe 1F992 l
zebra 1F993 l | rabbit 1F407 l | turtle 1F422 l | snake 1F40D r | crocodile 1F40A t | whale 1F433 l
shark 1F988 r | fish 1F41F r | octopus 1F419 t | crab 1F980 t | snail 1F40C r | butterfly 1F98B t
bee 1F41D r | ladybug 1F41E - | spider 1F577 - | cactus 1F335 t | palm tree 1F334 t | pine tree 1F332 t
rose 1F339 t | sunflower 1F33B t | leaf 1F341 - | moon 1F319 - | sun 2600 - | star 2B50 - | cloud 2601 t
rainbow 1F308 - | snowflake 2744 o | snowman 26C4 t | volcano 1F30B t | airplane 2708 -
helicopter 1F681 r | rocket 1F680 - | car 1F697 t | bus 1F68C t | bicycle 1F6B2 t | sailboat 26F5 t
anchor 2693 t | traffic light 1F6A6 - | parachute 1FA82 t | umbrella 2602 t | key 1F511 - | lock 1F512 t
hammer 1F528 t | pencil 270F - | book 1F4D5 - | envelope 2709 t | bell 1F514 t | alarm clock 23F0 t
hourglass 231B - | camera 1F4F7 t | television 1F4FA t | laptop 1F4BB t | light bulb 1F4A1 t
candle 1F56F t | guitar 1F3B8 - | piano 1F3B9 t | trumpet 1F3BA - | drum 1F941 t | soccer ball 26BD -
basketball 1F3C0 - | trophy 1F3C6 t | balloon 1F388 t | gift 1F381 t | teddy bear 1F9F8 t | crown 1F451 t
top hat 1F3A9 t | shoe 1F45E t | shirt 1F455 t | backpack 1F392 t | diamond 1F48E t | chair 1FA91 t
ladder 1FA9C - | house 1F3E0 t | castle 1F3F0 t | tent 26FA t
"""

_PLURALS = {
    "fish": "fish",
    "sheep": "sheep",
    "leaf": "leaves",
    "cactus": "cacti",
    "volcano": "volcanoes",
}
_SILENT_H = ("hourglass",)


def _parse(table: str) -> tuple[NamedObject, ...]:
    found = []
    for entry in table.replace("\n", "|").split("|"):
        if entry.strip():
            name, hexcode, mark = entry.strip().rsplit(" ", 2)
            found.append(NamedObject(name, hexcode, mark in "tlr", mark == "o", {"l": "left", "r": "right"}.get(mark)))
    return tuple(sorted(found, key=lambda item: item.name))


OBJECTS: tuple[NamedObject, ...] = _parse(_TABLE)
OBJECT_NAMES: tuple[str, ...] = tuple(item.name for item in OBJECTS)


@lru_cache(maxsize=1)
def _by_name() -> dict[str, NamedObject]:
    return {item.name: item for item in OBJECTS}


def named(name: str) -> NamedObject:
    """The object called `name`.

    Raises StudioError when no object has that name.
    """
    try:
        return _by_name()[name]
    except KeyError:
        raise StudioError(
            f"No object is called {name!r}: scenes know {len(OBJECT_NAMES)} names. "
            "Choose one from train.scenes.OBJECT_NAMES."
        ) from None


def article(phrase: str) -> str:
    """The indefinite article, "a" or "an", that goes before `phrase` (a name or an adjective)."""
    return "an" if phrase[:1].lower() in "aeiou" or phrase.startswith(_SILENT_H) else "a"


def plural(name: str) -> str:
    """The plural of an object's name: "key" gives "keys", "leaf" gives "leaves"."""
    if name in _PLURALS:
        return _PLURALS[name]
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return name + "es"
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    return name + "s"
