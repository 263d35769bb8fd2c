"""Everyday words, ten domains and two more, from which documents and programs are written."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "DOMAINS",
    "DomainWords",
    "all_words",
    "corpus_only",
    "held_out",
    "varying",
    "warm",
    "warm_words",
    "whole_words",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainWords:
    """The words of one domain; all single lower-case words, nouns with a regular plural.

    Attributes:
        domain: its name.
        desk: the class name of its programs.
        things: what the records are.
        names: what single records are called.
        numbers: attributes that are whole numbers.
        qualities: attributes that are words.
        values: values of those.
        acts: what may be done to a thing.
        places: where things are kept.
    """

    domain: str
    desk: str
    things: tuple[str, ...]
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    qualities: tuple[str, ...]
    values: tuple[str, ...]
    acts: tuple[str, ...]
    places: tuple[str, ...]


def _domain(domain: str, desk: str, *lists: str) -> DomainWords:
    things, names, numbers, qualities, values, acts, places = (tuple(text.split()) for text in lists)
    return DomainWords(domain=domain, desk=desk, things=things, names=names, numbers=numbers, qualities=qualities,
                       values=values, acts=acts, places=places)  # fmt: skip


DOMAINS: tuple[DomainWords, ...] = (
    _domain("retail", "Shop",
        "product item gift toy ladder jacket lamp chair",
        "amber cobalt maple onyx pearl coral linen velvet copper walnut ivory slate denim crimson satin bamboo",
        "price stock discount weight rating size", "color brand fabric style",
        "red blue green black white grey plain striped", "label wrap pack recall inspect reserve polish restock",
        "shelf window aisle depot counter rack"),
    _domain("travel", "Travel",
        "trip flight room tour ferry hotel cabin van",
        "lisbon oslo cairo quito delhi perth lyon malta kyoto turin seville riga bergen tunis hobart cusco",
        "fare distance seats nights delay gate", "grade season carrier meal",
        "summer winter first second "
        "vegan early late direct", "confirm board delay cancel upgrade refund review guard",
        "harbor station lounge terminal office dock"),
    _domain("telecom", "Telecom",
        "line plan modem router phone mast device channel",
        "alpha bravo delta echo hotel kilo lima oscar papa romeo sierra tango victor yankee zulu quebec",
        "speed minutes quota signal channel fee", "band status network mode",
        "slow fast open shared fixed mobile prepaid roaming", "activate suspend renew reset patch route test mute",
        "tower region cabinet hub exchange zone"),
    _domain("banking", "Bank",
        "account card loan deposit fund bond transfer cheque",
        "adams baker clark davis evans foster grant hughes irving jones keller lopez morgan norris olsen porter",
        "balance limit rate fee term score", "currency branch owner grade",
        "euro dollar yen gold silver basic joint private", "freeze approve close audit verify sign flag release",
        "vault branch desk ledger archive drawer"),
    _domain("calendar", "Calendar",
        "meeting event call lesson visit shift talk club",
        "budget design hiring launch payroll review safety sales "
        "training welcome yoga pottery chess choir drama survey",
        "hour length guests week floor day", "host topic format room",
        "online hybrid private weekly "
        "monthly formal short long", "confirm cancel move invite record repeat announce skip",
        "monday tuesday wednesday thursday friday sunday"),
    _domain("files", "Files",
        "file folder note photo report draft script scan",
        "atlas beacon cedar dune ember fjord glacier harvest "
        "island jungle kernel lagoon meadow nebula orchid prairie",
        "size version pages copies age lines", "owner format language access",
        "text image audio public hidden draft final shared", "archive lock print share backup tag export restore",
        "inbox server drive backup cloud attic"),
    _domain("cart", "Cart",
        "order basket coupon parcel snack drink fruit cake",
        "apple banana cherry grape lemon mango olive peach pepper radish tomato walnut carrot fennel ginger papaya",
        "price cost weight points bonus total", "flavor origin kind size",
        "sweet salty fresh frozen dried organic small large", "wrap scan weigh taste select replace deliver hold",
        "basket bag trolley crate locker freezer"),
    _domain("crm tickets", "Tickets",
        "ticket client lead case claim complaint contact deal",
        "acme borealis cygnus dynamo everest fabrico globex hooli "
        "initech juniper kestrel lumen monarch nimbus orion pixel",
        "priority age worth visits rank score", "agent reason team source",
        "urgent normal angry happy "
        "billing repair sales mail", "assign close escalate answer merge reopen forward rank",
        "queue inbox board region office backlog"),
    _domain("smart home", "Home",
        "light sensor heater camera door fan blind alarm",
        "attic balcony cellar den entry garage hall kitchen "
        "laundry nursery office pantry porch studio terrace bedroom",
        "level power battery timer volume heat", "mode scene color tone",
        "warm cold dim bright quiet eco away night", "start dim pair arm mute clean charge calibrate",
        "floor garden roof wing basement yard"),
    _domain("project tracker", "Tracker",
        "job bug chore sprint feature goal risk issue",
        "login search export billing layout cache upload theme "
        "parser gateway signup editor filter report widget backup",
        "points effort budget hours rank votes", "owner phase team kind",
        "open blocked ready major minor frontend backend core", "start finish review block merge ship plan estimate",
        "board sprint backlog branch milestone archive"),
    _domain("library", "Library",
        "book map journal record poem novel comic album",
        "dracula emma hamlet ivanhoe kim macbeth middlemarch persuasion "
        "rebecca silas ulysses utopia walden zorro beowulf candide",
        "pages year copies loans chapter volume", "author genre language cover",
        "old new rare poetry drama history science worn", "lend borrow renew repair stamp catalog donate bind",
        "shelf desk cellar tower hall wagon"),
    _domain("clinic", "Clinic",
        "patient visit swab bed nurse scan form dose",
        "abel bruno clara diego elena felix greta hugo ines jonas karla linus maria nadia oskar petra",
        "age pulse dose weight wait level", "ward group reason mood",
        "calm tired stable urgent "
        "north south morning evening", "admit check discharge weigh greet treat register rest",
        "ward lab lobby store theatre cabinet"),
)  # fmt: skip


def warm(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that the warm-up may use."""
    kept = {*corpus_only(words), *held_out(words)}
    return tuple(word for word in words if word not in kept)


def corpus_only(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that only the shipped corpus uses: a quarter of a long list, one of a short one."""
    return words[len(words) // 2 :][:1] if len(words) <= 8 else words[3::8]


def held_out(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that only held-out programs use."""
    return words[-1:] if len(words) <= 8 else words[7::8]


def all_words() -> frozenset[str]:
    """Every word of the lists."""
    return frozenset(word for domain in DOMAINS for words in _lists(domain) for word in words)


def warm_words() -> frozenset[str]:
    """Every word that a warm-up program may use."""
    return frozenset(word for domain in DOMAINS for words in _lists(domain) for word in warm(words))


def _lists(domain: DomainWords) -> tuple[tuple[str, ...], ...]:
    return (domain.things, domain.names, domain.numbers, domain.qualities, domain.values, domain.acts, domain.places)


def varying() -> frozenset[str]:
    """Every word that differs from program to program: no piece of boilerplate may hold one."""
    acts = frozenset(word.capitalize() for domain in DOMAINS for word in domain.acts)
    desks = (domain.desk for domain in DOMAINS)
    return acts.union(all_words(), desks, _STRUCTURE.split())


def whole_words() -> frozenset[str]:
    """Every word of the lists, with the forms in which documents and programs use it."""
    return varying() | {word + "s" for domain in DOMAINS for word in domain.things}


_STRUCTURE = """place places get set list find top add take clear next reset stage steps token pin code start sign open
first serve length join move free remove count amount read source target empty taken other line new one two three n want
ready allowed seen unknown"""
