"""The environment that bfcl-eval lives in: its pins would break this one's."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from spade_evals.suites.installed import cache_folder, install_once, installed, run_installer

__all__ = ["VERSION", "bfcl_folder", "bfcl_python", "set_up"]

VERSION = "2026.3.23"
_PACKAGES = (
    "requests", "tqdm", "numpy==1.26.4", "pandas", "huggingface_hub", "pydantic", "python-dotenv",
    "tree_sitter==0.21.3", "tree-sitter-java==0.21.0", "tree-sitter-javascript==0.21.4", "openai>=3,<4",
    "mistralai==1.7.0", "anthropic", "cohere==5.18.0", "typer", "tabulate", "datamodel-code-generator==0.25.7",
    "google-genai", "qwen-agent", "soundfile", "mpmath==1.3.0", "tenacity", "writer-sdk", "overrides", "boto3",
    "beautifulsoup4", "html2text", "rank_bm25==0.2.2", "google-search-results", "networkx==3.3", "filelock==3.20.0",
)  # fmt: skip


def bfcl_folder() -> Path:
    """Where the environment lies."""
    return cache_folder(f"bfcl-{VERSION}")


def bfcl_python() -> Path | None:
    """Its interpreter, once it was set up to the end."""
    folder = bfcl_folder()
    return folder / "bin" / "python" if installed(folder) else None


def set_up() -> Path:
    """Make the environment from nothing (about 570 MB); one that was not finished is removed first.

    Raises:
        InfrastructureError: a package could not be installed, or bfcl-eval cannot be imported.
    """
    return install_once(bfcl_folder(), _make)


def _make(folder: Path) -> None:
    python = str(folder / "bin" / "python")
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    run = partial(run_installer, failed="the environment of bfcl-eval could not be made")
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", *quiet]
    run([sys.executable, "-m", "venv", str(folder)])
    run([*install, *_PACKAGES])
    run([*install, "--no-deps", f"bfcl-eval=={VERSION}"])
    with tempfile.TemporaryDirectory(prefix="spade-bfcl-") as root:
        imported = "import bfcl_eval.eval_checker.eval_runner, bfcl_eval._llm_response_generation"
        run([python, "-I", "-c", imported], env={"HOME": root, "BFCL_PROJECT_ROOT": root})
