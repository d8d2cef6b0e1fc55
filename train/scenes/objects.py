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
apple 1F34E t | banana 1F34C - | pineapple 1F34D t | pear 1F350 - | lemon 1F34B - | strawberry 1F353 t
watermelon 1F349 - | peach 1F351 t | kiwi 1F95D - | avocado 1F951 t | eggplant 1F346 - | carrot 1F955 -
mushroom 1F344 t | hamburger 1F354 t | pizza 1F355 - | hot dog 1F32D - | taco 1F32E t | pretzel 1F968 -
croissant 1F950 - | donut 1F369 - | cookie 1F36A - | cupcake 1F9C1 t | cake 1F382 t | lollipop 1F36D -
ice cream cone 1F366 t | egg 1F95A - | coconut 1F965 - | onion 1F9C5 t | chili pepper 1F336 -
bell pepper 1FAD1 t | sandwich 1F96A - | teapot 1FAD6 t | wine glass 1F377 t | baby bottle 1F37C -
cup 2615 t | spoon 1F944 - | knife 1F52A - | frying pan 1F373 -
cat 1F408 l | dog 1F415 l | horse 1F40E l | cow 1F404 l | pig 1F416 l | sheep 1F411 l | goat 1F410 l
rooster 1F413 l | chick 1F425 t | penguin 1F427 t | owl 1F989 t | duck 1F986 l | swan 1F9A2 l
parrot 1F99C t | flamingo 1F9A9 l | peacock 1F99A t | eagle 1F985 l | elephant 1F418 l | giraffe 1F992 l
zebra 1F993 l | tiger 1F405 l | camel 1F42B l | kangaroo 1F998 l | rhino 1F98F l | gorilla 1F98D l
monkey 1F412 l | rabbit 1F407 l | mouse 1F401 - | squirrel 1F43F l | hedgehog 1F994 l | bat 1F987 t
sloth 1F9A5 - | turtle 1F422 l | snake 1F40D r | lizard 1F98E - | crocodile 1F40A t | dinosaur 1F995 r
mammoth 1F9A3 l | whale 1F433 l | dolphin 1F42C l | shark 1F988 r | fish 1F41F r | octopus 1F419 t
squid 1F991 - | crab 1F980 t | lobster 1F99E - | shrimp 1F990 - | seal 1F9AD t | jellyfish 1FABC t
snail 1F40C r | butterfly 1F98B t | bee 1F41D r | ant 1F41C - | ladybug 1F41E - | spider 1F577 -
worm 1FAB1 - | dragon 1F409 r
cactus 1F335 t | palm tree 1F334 t | pine tree 1F332 t | rose 1F339 t | tulip 1F337 t | sunflower 1F33B t
leaf 1F341 - | clover 1F340 - | moon 1F319 - | sun 2600 - | star 2B50 - | cloud 2601 t | rainbow 1F308 -
snowflake 2744 o | snowman 26C4 t | volcano 1F30B t
airplane 2708 - | helicopter 1F681 r | rocket 1F680 - | car 1F697 t | bus 1F68C t | ambulance 1F691 l
tractor 1F69C l | train 1F682 l | bicycle 1F6B2 t | scooter 1F6F4 t | motorcycle 1F3CD t | sailboat 26F5 t
canoe 1F6F6 t | anchor 2693 t | traffic light 1F6A6 - | wheel 1F6DE - | skateboard 1F6F9 t
parachute 1FA82 t | umbrella 2602 t | satellite 1F6F0 -
key 1F511 - | lock 1F512 t | hammer 1F528 t | axe 1FA93 t | saw 1FA9A - | screwdriver 1FA9B - | wrench 1F527 -
pencil 270F - | paintbrush 1F58C - | book 1F4D5 - | envelope 2709 t | mailbox 1F4EB t | bell 1F514 t
alarm clock 23F0 t | watch 231A - | hourglass 231B - | camera 1F4F7 t | television 1F4FA t | radio 1F4FB t
telephone 260E t | laptop 1F4BB t | light bulb 1F4A1 t | flashlight 1F526 - | candle 1F56F t | magnet 1F9F2 -
microscope 1F52C t | telescope 1F52D t | syringe 1F489 - | pill 1F48A - | battery 1F50B - | gear 2699 -
guitar 1F3B8 - | piano 1F3B9 t | violin 1F3BB - | trumpet 1F3BA - | drum 1F941 t | saxophone 1F3B7 t
microphone 1F3A4 - | accordion 1FA97 - | soccer ball 26BD - | basketball 1F3C0 - | tennis ball 1F3BE -
baseball 26BE - | trophy 1F3C6 t | kite 1FA81 - | balloon 1F388 t | gift 1F381 t | teddy bear 1F9F8 t
puzzle piece 1F9E9 - | crown 1F451 t | top hat 1F3A9 t | shoe 1F45E t | boot 1F462 t | dress 1F457 t
shirt 1F455 t | coat 1F9E5 t | backpack 1F392 t | handbag 1F45C t | ring 1F48D t | diamond 1F48E t
chair 1FA91 t | bed 1F6CF t | couch 1F6CB t | door 1F6AA - | window 1FA9F - | ladder 1FA9C - | basket 1F9FA t
bucket 1FAA3 t | broom 1F9F9 - | toothbrush 1FAA5 - | toilet 1F6BD t | bathtub 1F6C1 t | mirror 1FA9E -
house 1F3E0 t | castle 1F3F0 t | tent 26FA t | church 26EA t | ferris wheel 1F3A1 t | fountain 26F2 t
bone 1F9B4 - | tooth 1F9B7 t | feather 1FAB6 - | boomerang 1FA83 - | bow 1F3F9 - | shield 1F6E1 t
bomb 1F4A3 t | log 1FAB5 t | rock 1FAA8 - | abacus 1F9EE - | scroll 1F4DC - | suitcase 1F9F3 t
shopping cart 1F6D2 t | paperclip 1F4CE o | pushpin 1F4CC t | compass 1F9ED - | joystick 1F579 t | fan 1FAAD t
lantern 1F3EE -
"""

_PLURALS = {
    "fish": "fish",
    "sheep": "sheep",
    "squid": "squid",
    "shrimp": "shrimp",
    "mouse": "mice",
    "tooth": "teeth",
    "knife": "knives",
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
            found.append(
                NamedObject(name, hexcode, mark in "tlr", mark == "o", {"l": "left", "r": "right"}.get(mark))
            )
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
    """The plural of an object's name: "key" gives "keys", "mouse" gives "mice"."""
    if name in _PLURALS:
        return _PLURALS[name]
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return name + "es"
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    return name + "s"
