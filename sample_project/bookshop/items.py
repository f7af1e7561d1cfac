from dataclasses import dataclass


@dataclass
class Book:
    """A book; the pipeline makes numbers of the texts of its price, rating and stock."""

    url: str
    title: str | None
    category: str | None
    upc: str | None
    price: str | float | None
    rating: str | int | None
    stock: str | int | None
    description: str | None


@dataclass
class Page:
    """A page of documentation."""

    url: str
    title: str
    headings: list[str]
    links: int
