"""The pages of the demo site.

Below ``/js/`` stands the same shop once more, but its pages of single books come without the book:
a script puts it into place, ``?wait=MS`` milliseconds after the page has loaded.
"""

import json
import math
from collections.abc import Callable, Iterator
from html import escape
from unicodedata import normalize

from .books import CATEGORIES, Book, make_books

BOOKS_PER_PAGE = 20
_MORE_BOOKS = 8

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title} | Demo bookshop</title>
<style>
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 Georgia, serif; }}
a {{ color: #245; }}
ol.row {{ display: flex; flex-wrap: wrap; gap: 2rem; padding: 0; list-style: none; }}
ul {{ display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none; }}
th {{ padding-right: 2rem; text-align: left; }}
.product_pod {{ width: 10rem; }}
.thumbnail {{ width: 8rem; height: 12rem; }}
.price_color {{ color: #a40; }}
.availability {{ color: #384; }}
</style>
</head>
<body>
<header><a href="{root}/">Demo bookshop</a> · <a href="/basket/">Basket</a></header>
{content}
</body>
</html>
"""
_LIST = """<ul class="breadcrumb">
<li><a href="{root}/">Home</a></li>
<li class="active">{heading}</li>
</ul>
<ul class="side_categories">
{categories}
</ul>
<h1>{heading}</h1>
<p><strong>{count}</strong> results</p>
<ol class="row">
{books}
</ol>
<ul class="pager">
{previous}
<li class="current">Page {page} of {pages}</li>
{next}
</ul>"""
_POD = """<li><article class="product_pod">
<div class="image_container"><a href="{url}">{cover}</a></div>
<p class="star-rating {rating}" title="{rating}"></p>
<h3><a href="{url}" title="{title}">{short_title}</a></h3>
<div class="product_price">
<p class="price_color">{price}</p>
<p class="instock availability"><i class="icon-ok"></i> In stock</p>
</div>
</article></li>"""
_COVER = (
    '<img class="thumbnail" alt="{title}" src="data:image/svg+xml,'
    "%3Csvg xmlns='http://www.w3.org/2000/svg'%3E"
    "%3Crect width='100%25' height='100%25' fill='hsl({hue} 40%25 60%25)'/%3E%3C/svg%3E\">"
)
_DETAIL = """<ul class="breadcrumb">
<li><a href="{root}/">Home</a></li>
<li><a href="{root}/">Books</a></li>
<li><a href="{shelf}">{category}</a></li>
<li class="active">{title}</li>
</ul>
<article class="product_page">
{book}
</article>"""
_BOOK = """<div class="row">
<div id="product_gallery">{cover}</div>
<div class="product_main">
<h1>{title}</h1>
<p class="price_color">{price}</p>
<p class="instock availability"><i class="icon-ok"></i> In stock ({stock} available)</p>
<p class="star-rating {rating}" title="{rating}"></p>
</div>
</div>
<div id="product_description" class="sub-header"><h2>Product Description</h2></div>
<p>{description}</p>
<div class="sub-header"><h2>Product Information</h2></div>
<table class="table table-striped">
<tr><th>UPC</th><td>{upc}</td></tr>
<tr><th>Product Type</th><td>Books</td></tr>
<tr><th>Price (excl. tax)</th><td>{price}</td></tr>
<tr><th>Price (incl. tax)</th><td>{price}</td></tr>
<tr><th>Tax</th><td>£0.00</td></tr>
<tr><th>Availability</th><td>In stock ({stock} available)</td></tr>
<tr><th>Number of reviews</th><td>0</td></tr>
</table>
<div class="sub-header"><h2>More {category}</h2></div>
<ol class="row">
{more_books}
</ol>"""
_SCRIPT = """
<script>
const book = {book};
const wait = Number(new URLSearchParams(location.search).get("wait"));
setTimeout(() => {{ document.querySelector(".product_page").innerHTML = book; }}, wait);
</script>"""


def make_pages() -> dict[str, str]:
    """Return the HTML of every page by its path."""
    books = make_books()
    shelves = {name: [book for book in books if book.category == name] for name in CATEGORIES}
    pages = {"/basket/": make_page("Basket", "<h1>Your basket is empty</h1>")}
    for root in ("", "/js"):
        pods = {book: _pod(root, book) for book in books}
        pages.update(_list_pages(root, "All books", _shop_path, list(pods.values())))
        pages[f"{root}/index.html"] = pages[f"{root}/"]
        for name, shelf in shelves.items():
            listed = [pods[book] for book in shelf]
            pages.update(_list_pages(root, name, _shelf_path(name), listed))
            for place, book in enumerate(shelf):
                others = [*listed[place + 1 :], *listed[:place]][:_MORE_BOOKS]
                pages[root + _path(book)] = _detail_page(root, book, others)
    return pages


def make_page(title: str, content: str, root: str = "") -> str:
    """Return the HTML page called *title* of the shop below *root*, with the HTML *content*."""
    return _PAGE.format(root=root, title=escape(title), content=content)


def _shop_path(page: int) -> str:
    return "/" if page == 1 else f"/catalogue/page-{page}.html"


def _shelf_path(category: str) -> Callable[[int], str]:
    number = CATEGORIES.index(category) + 2
    folder = f"/catalogue/category/books/{category.lower()}_{number}"
    return lambda page: f"{folder}/index.html" if page == 1 else f"{folder}/page-{page}.html"


def _path(book: Book) -> str:
    plain = normalize("NFKD", book.title.lower()).encode("ascii", "ignore").decode()
    slug = "-".join("".join(letter if letter.isalnum() else " " for letter in plain).split())
    return f"/catalogue/{slug}_{book.number}/index.html"


def _list_pages(
    root: str, heading: str, path: Callable[[int], str], pods: list[str]
) -> Iterator[tuple[str, str]]:
    pages = math.ceil(len(pods) / BOOKS_PER_PAGE)
    categories = "\n".join(
        f'<li><a href="{root}{_shelf_path(name)(1)}">{name}</a></li>' for name in CATEGORIES
    )

    def link(kind: str, page: int) -> str:
        if not 1 <= page <= pages:
            return ""
        return f'<li class="{kind}"><a href="{root}{path(page)}">{kind}</a></li>'

    for page in range(1, pages + 1):
        content = _LIST.format(
            root=root,
            heading=heading,
            categories=categories,
            count=len(pods),
            page=page,
            pages=pages,
            books="\n".join(pods[(page - 1) * BOOKS_PER_PAGE : page * BOOKS_PER_PAGE]),
            previous=link("previous", page - 1),
            next=link("next", page + 1),
        )
        yield root + path(page), make_page(heading, content, root)


def _pod(root: str, book: Book) -> str:
    short = book.title if len(book.title) <= 24 else f"{book.title[:20]}..."
    return _POD.format(**_fields(book), url=root + _path(book), short_title=escape(short))


def _detail_page(root: str, book: Book, others: list[str]) -> str:
    fields = _fields(book)
    content = html = _BOOK.format(**fields, more_books="\n".join(others))
    script = ""
    if root == "/js":
        # Whatever it stands in, "</script" would end the script.
        script = _SCRIPT.format(book=json.dumps(html).replace("</", r"<\/"))
        content = "<p>Loading …</p>"
    shelf = root + _shelf_path(book.category)(1)
    frame = _DETAIL.format(**fields, root=root, shelf=shelf, book=content)
    return make_page(book.title, frame + script, root)


def _fields(book: Book) -> dict[str, str]:
    fields = {name: escape(str(value)) for name, value in vars(book).items()}
    hue = 360 * CATEGORIES.index(book.category) // len(CATEGORIES)
    return {**fields, "cover": _COVER.format(title=fields["title"], hue=hue)}
