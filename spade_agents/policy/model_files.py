"""What a model folder says of itself: its configuration, its template family, and the renderer that fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, get_args

from spade_agents.errors import CheckpointError
from spade_agents.policy.chat_template import load_template
from spade_agents.policy.tokenizer import load_tokenizer
from spade_agents.rendering import FAMILIES, Deviation, Renderer, RenderStyle, open_renderer

__all__ = ["FolderRenderer", "read_json", "renderer_of"]


class FolderRenderer(NamedTuple):
    """The renderer of a folder's model, how it departs from the model's template, and the model's name."""

    renderer: Renderer
    deviation: Deviation
    name: str


def renderer_of(folder: Path, *, style: RenderStyle | None = None) -> FolderRenderer:
    """The renderer of a Hugging Face folder, held against its chat template where it has one.

    Args:
        folder: `spade.json` in it may name `template_family`, `style` and `name`; a folder with neither that nor a chat
            template is taken for Hermes.
        style: of the tools block, instead of the one named there.

    Raises:
        CheckpointError: an unknown family or style, an unreadable file, or a template that the family does not render.
    """
    about = read_json(folder / "spade.json") if (folder / "spade.json").is_file() else {}
    family, chosen = about.get("template_family"), style or about.get("style", "full")
    if family is not None and family not in FAMILIES:
        raise CheckpointError(f"{folder} uses the template family {family!r}; known: {', '.join(FAMILIES)}")
    if chosen not in get_args(RenderStyle):
        raise CheckpointError(f"{folder} uses the style {chosen!r}; known: {', '.join(get_args(RenderStyle))}")
    tokenizer, template = load_tokenizer(folder), load_template(folder)
    if template is None and family is None:
        family = "hermes"
    found = open_renderer(tokenizer, template, style=chosen, family=family)
    return FolderRenderer(found.renderer, found.deviation, str(about.get("name", folder.name)))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a folder's JSON file.

    Raises:
        CheckpointError: it cannot be read, or holds something else.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; wanted a Hugging Face folder") from error
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path} holds no JSON object; wanted a Hugging Face folder")
    return fields
