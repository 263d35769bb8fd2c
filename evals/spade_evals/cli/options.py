"""The options that several commands of `spade-eval` take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spade_agents.policy.vllm import VllmSettings

__all__ = [
    "ATTEMPT_SECONDS",
    "BackendOption",
    "DataOption",
    "LimitOption",
    "MaxTokensOption",
    "NOption",
    "ResumeOption",
    "VllmPythonOption",
    "vllm_settings",
]

ATTEMPT_SECONDS = 600.0
"""Wall-clock limit of one attempt, unless a user sets another."""

LimitOption = Annotated[int | None, typer.Option(min=1, help="Only the first tasks of each column.")]
NOption = Annotated[int | None, typer.Option("--n", min=1, help="Samples of each task, in place of the protocol's.")]
MaxTokensOption = Annotated[int | None, typer.Option(min=1, help="Of a completion, in place of the protocol's.")]
DataOption = Annotated[Path | None, typer.Option(help="Folder with the files that only you can supply.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the log at --out: only what is missing.")]
BackendOption = Annotated[
    str, typer.Option(metavar="auto|torch|vllm", help="What runs a checkpoint: this process, or a vLLM server.")
]
VllmPythonOption = Annotated[
    str, typer.Option(metavar="PATH", help="The interpreter that has vLLM, with --backend vllm; else this one.")
]


def vllm_settings(python: str, *, seconds: float = ATTEMPT_SECONDS) -> VllmSettings:
    """A server for one command: started in seconds rather than minutes, asked for as long as an attempt may take."""
    return VllmSettings(python=python, eager=True, request_seconds=max(seconds, ATTEMPT_SECONDS))
