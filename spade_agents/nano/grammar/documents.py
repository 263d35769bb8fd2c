"""Short everyday documents, and the words in them that a program may take up."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from spade_agents.nano.grammar.words import DOMAINS, DomainWords, corpus_only, held_out, warm

__all__ = ["Document", "Vocabulary", "Words", "write_document"]

Vocabulary = Literal["warm", "corpus", "held_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words that one document offers: a thing, five names, and so on."""

    domain: str
    desk: str
    thing: str
    names: tuple[str, ...]
    number: str
    quality: str
    values: tuple[str, ...]
    acts: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of 20 to 40 words, as a corpus holds it."""

    text: str
    domain: str
    words: Words


_OPENINGS = (
    "The {place} team looks after {things}.",
    "Our {place} holds many {things}.",
    "This page is about {things} in the {place}.",
    "Notes for the {place}: we handle {things}.",
    "Every {thing} in the {place} is listed here.",
    "People bring a {thing} to the {place}.",
    "At the {place} we keep track of {things}.",
)
_LISTS = (
    "Now listed: {names}.",
    "Each {thing} has a name: {names}.",
    "Today we have {names}.",
    "Known {things}: {names}.",
    "In use this week: {names}.",
    "The {things} are {names}.",
)
_ATTRIBUTES = (
    "A {thing} has a {number} and a {quality}, such as {values}.",
    "We note the {number}; the {quality} is {values}.",
    "The {quality} may be {values} and the {number} changes.",
    "Write down the {number} and the {quality} ({values}).",
    "By {quality} they are {values}; the {number} is checked daily.",
)
_ACTS = (
    "You may {act} or {other} a {thing}.",
    "Staff {act} it first, then {other} it.",
    "Ask before you {act} or {other} one.",
    "We {act} each {thing} and {other} some.",
    "Some must {act}, others {other}, a {thing}.",
)
_PLACES = (
    "Places: {places}.",
    "They go to the {places}.",
    "Look in the {places}.",
    "Kept apart: {places}.",
)


def write_document(rng: random.Random, vocabulary: Vocabulary = "warm", domain: DomainWords | None = None) -> Document:
    """Draw a domain's words and write a document that holds them.

    Every other document of the warm-up mixes the words of all domains, so that a word must be read in the document and
    cannot be guessed from the company it keeps.
    """
    mixed = vocabulary == "warm" and domain is None and rng.random() < _MIXED_SHARE
    if mixed:
        words = replace(_draw_words(rng, _MIXED, "given"), desk=rng.choice(DOMAINS).desk)
    else:
        words = _draw_words(rng, domain or rng.choice(DOMAINS), vocabulary)
    parts = [rng.choice(_LISTS), rng.choice(_ATTRIBUTES), rng.choice(_ACTS), rng.choice(_PLACES)]
    if rng.random() < 0.5:
        rng.shuffle(parts)
    text = " ".join([rng.choice(_OPENINGS), *parts])
    filled = text.format(
        thing=words.thing,
        things=words.thing + "s",
        place=words.places[0],
        places=_series(words.places),
        names=_series(words.names),
        number=words.number,
        quality=words.quality,
        values=_series(words.values, "or"),
        act=words.acts[0],
        other=words.acts[1],
    )
    return Document(text=filled, domain=words.domain, words=words)


def _draw_words(rng: random.Random, domain: DomainWords, vocabulary: Vocabulary | Literal["given"]) -> Words:
    used: set[str] = set()

    def draw(words: tuple[str, ...], count: int) -> tuple[str, ...]:
        free = [word for word in _pool(words, vocabulary, count) if word not in used]
        picked = rng.sample(free, count)
        used.update(picked)
        return tuple(picked)

    one: Callable[[tuple[str, ...]], str] = lambda words: draw(words, 1)[0]  # noqa: E731
    names = _NAMES if vocabulary == "held_out" else domain.names
    return Words(
        domain=domain.domain,
        desk=domain.desk,
        thing=one(domain.things),
        number=one(domain.numbers),
        quality=one(domain.qualities),
        acts=draw(domain.acts, 2),
        places=draw(domain.places, 3),
        values=draw(domain.values, 4),
        names=draw(names, 5),
    )


def _pool(words: tuple[str, ...], vocabulary: Vocabulary | Literal["given"], count: int) -> tuple[str, ...]:
    """The words to draw `count` from; a held-out list too short for it is filled up with words of the warm-up."""
    if vocabulary == "given":
        return words
    if vocabulary == "warm":
        return warm(words)
    if vocabulary == "corpus":
        return warm(words) + corpus_only(words)
    unseen = held_out(words)
    return unseen if len(unseen) >= count + 4 or count == 1 else unseen + warm(words)


def _union(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for words in lists for word in words))


_NAMES = _union(domain.names for domain in DOMAINS)

_MIXED_SHARE = 0.5
_MIXED = DomainWords(
    domain="mixed",
    desk="",
    things=_union(warm(domain.things) for domain in DOMAINS),
    names=_union(warm(domain.names) for domain in DOMAINS),
    numbers=_union(warm(domain.numbers) for domain in DOMAINS),
    qualities=_union(warm(domain.qualities) for domain in DOMAINS),
    values=_union(warm(domain.values) for domain in DOMAINS),
    acts=_union(warm(domain.acts) for domain in DOMAINS),
    places=_union(warm(domain.places) for domain in DOMAINS),
)
"""The words that the warm-up may use, of all domains together."""


def _series(words: tuple[str, ...], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
