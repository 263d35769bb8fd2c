"""Sources of a corpus by name: the library of this Python, files, datasets, and presets for well-known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

__all__ = ["PRESETS", "CorpusSource", "Preset", "source_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSource:
    """Where to read, and what of it.

    Attributes:
        name: `stdlib`, a file or folder, or a dataset as OWNER/NAME.
        config, split: of a dataset.
        fields: columns that make the text, joined by a blank line; those that a row lacks are left out.
        domain: of every document, unless `domain_field` names a column that tells it.
        rows: how many are read, at most; `None` for all.
    """

    name: str
    config: str | None = None
    split: str = "train"
    fields: tuple[str, ...] = ("text",)
    domain: str = ""
    domain_field: str = ""
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A well-known source; `told` says what it is and what it asks of those who read it."""

    source: CorpusSource
    told: str


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "dclm": Preset(
            source=CorpusSource(name="mlfoundations/dclm-baseline-1.0", domain="web"),
            told="DCLM-Baseline: filtered pages of the web (CC-BY-4.0)",
        ),
        "megascience": Preset(
            source=CorpusSource(
                name="MegaScience/MegaScience", fields=("question", "answer"), domain_field="subject", domain="science"
            ),
            told="MegaScience: questions of the sciences with worked answers (CC-BY-NC-SA-4.0)",
        ),
        "nemotron-code": Preset(
            source=CorpusSource(name="nvidia/Nemotron-Pretraining-Code-v1", fields=("text", "content"), domain="code"),
            told="Nemotron's code for pretraining (its own licence; log in and accept it first, and name a --config)",
        ),
    }
)


def source_named(
    name: str,
    *,
    config: str | None = None,
    split: str | None = None,
    fields: tuple[str, ...] = (),
    domain: str = "",
    rows: int | None = None,
) -> CorpusSource:
    """The source of a preset or any other name; what is given replaces what the preset has."""
    source = PRESETS[name].source if name in PRESETS else CorpusSource(name=name)
    return replace(
        source,
        config=config or source.config,
        split=split or source.split,
        fields=fields or source.fields,
        domain=domain or source.domain,
        rows=rows,
    )
