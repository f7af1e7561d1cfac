"""The books of the demo site, made from their numbers, and so always the same."""

from dataclasses import dataclass
from random import Random

BOOKS = 1000


def _words(text: str) -> list[str]:
    return text.split()


CATEGORIES = _words(
    "Art Biography Business Childrens Classics Cooking Crime Fantasy Fiction Health History Horror "
    "Humor Music Mystery Nonfiction Philosophy Poetry Politics Psychology Romance Science Thriller "
    "Travel"
)
_ADJECTIVES = _words(
    "amber borrowed careful distant early forgotten gentle hollow invisible late midnight northern "
    "patient quiet restless second silver stubborn unlikely wandering"
)
_NOUNS = _words(
    "archive baker bridge café cartographer clock diver ferry garden harbour island keeper lantern "
    "letter map orchard railway river sea shadow storm teacher tower weaver winter"
)
_PLACES = _words(
    "Århus Bergen Cádiz Dover Essaouira Galway Kraków Lisbon Málaga Naples Porto Riga Tallinn "
    "Valparaíso York Zürich"
)
_VERBS = _words(
    "answers crosses finds follows forgets leaves mends outlives paints remembers sells"
)
_RATINGS = _words("One Two Three Four Five")


@dataclass(frozen=True)
class Book:
    """One book of the shop; its texts are plain text, not HTML."""

    number: int
    title: str
    category: str
    upc: str
    price: str
    rating: str
    stock: int
    description: str


def make_books() -> list[Book]:
    """Return the 1,000 books in the order in which the shop lists them."""
    return [_book(number) for number in range(BOOKS, 0, -1)]


class _Dice:
    """Repeatable choices: of all of ``random``, only ``random()`` is promised never to change."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def number(self, low: int, high: int) -> int:
        return low + int(self._random() * (high - low + 1))

    def pick(self, words: list[str]) -> str:
        return words[self.number(0, len(words) - 1)]


def _book(number: int) -> Book:
    dice = _Dice(number)
    return Book(
        number=number,
        title=_title(dice),
        category=dice.pick(CATEGORIES),
        upc=f"{number:04x}{dice.number(0, 16**12 - 1):012x}",
        price=f"£{dice.number(10, 59)}.{dice.number(0, 99):02}",
        rating=dice.pick(_RATINGS),
        stock=dice.number(1, 22),
        description=" ".join(_sentence(dice) for _ in range(dice.number(30, 50))),
    )


def _title(dice: _Dice) -> str:
    adjective, noun, other, place = map(dice.pick, (_ADJECTIVES, _NOUNS, _NOUNS, _PLACES))
    patterns = [
        f"The {adjective.title()} {noun.title()}",
        f"The {adjective.title()} {noun.title()} of {place}",
        f"{place} & the {adjective.title()} {noun.title()}",
        f"The {noun.title()}'s {other.title()}",
    ]
    return dice.pick(patterns)


def _sentence(dice: _Dice) -> str:
    return (
        f"In {dice.pick(_PLACES)} the {dice.pick(_ADJECTIVES)} {dice.pick(_NOUNS)} "
        f"{dice.pick(_VERBS)} the {dice.pick(_NOUNS)}."
    )
