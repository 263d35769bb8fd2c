"""What a checkpoint says that it was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spade_agents.errors import UsageError
from spade_agents.policy.open import model_folder

__all__ = ["about_model", "trained_generators"]


def about_model(folder: Path) -> Mapping[str, Any]:
    """The `spade.json` of a model's folder; empty where there is none.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        about = json.loads((folder / "spade.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'spade.json'} cannot be read: {error}") from error
    return about if isinstance(about, dict) else {}


def trained_generators(model: str) -> frozenset[str]:
    """The public generators, as `library/task`, whose instances a model was trained on.

    Args:
        model: as a user names it; nothing is known of scripts and endpoints.
    """
    if model.startswith("scripted:") or "://" in model or not model:
        return frozenset()
    return frozenset(str(name) for name in about_model(model_folder(model)).get("trained_generators") or ())
