"""The options that several commands of `spade-eval` take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "BackendOption",
    "DataOption",
    "LimitOption",
    "MaxTokensOption",
    "NOption",
    "ResumeOption",
    "VllmPythonOption",
]

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
