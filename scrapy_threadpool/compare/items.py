"""Items as texts that can be compared, whatever their type and the order of sets and dicts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from itemadapter import ItemAdapter

from .plan import Item

_SHOWN = 120
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def describe(item: Any, url: str, ignored: list[str]) -> Item:
    """Describe *item*, scraped from the page at *url*, without the fields called in *ignored*."""
    plain = _plain(item)
    if not isinstance(plain, dict):
        plain = {type(item).__name__: plain}
    kept = {name: value for name, value in plain.items() if name not in ignored}
    text = _text(kept)
    return Item(url, _digest(text), {name: _short(_text(value)) for name, value in kept.items()})


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping) or ItemAdapter.is_item(value):
        fields = value if isinstance(value, Mapping) else ItemAdapter(value)
        return {_key(key): _plain(content) for key, content in fields.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(content) for content in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(content) for content in value), key=_text)
    return _ADDRESS.sub("", repr(value))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else repr(key)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _short(text: str) -> str:
    # The digest keeps two long texts apart that begin alike.
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({_digest(text)[:8]})"


def _digest(text: str) -> str:
    # A page may hold lone surrogates, which UTF-8 refuses.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
