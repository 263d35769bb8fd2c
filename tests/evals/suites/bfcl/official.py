"""bfcl-eval's own command line as the oracle: result files as it writes them, and its verdict on each entry."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from spade_evals.suites.bfcl.categories import SINGLE_TURN

# A model of the package's own table whose handler is that for chat completions with native calls, unchanged.
MODEL = "openbmb/MiniCPM-SALA-FC"


def official(python: Path, root: Path, *arguments: str, **environment: str) -> None:
    """Run `bfcl` with results and scores below `root`."""
    settings = {
        **os.environ,
        "BFCL_PROJECT_ROOT": str(root),
        "OPENAI_API_KEY": "none",
        "HOME": str(root),
        **environment,
    }
    command = [str(python), "-m", "bfcl_eval", *arguments, "--model", MODEL]
    run = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


def _place(category: str) -> Path:
    if category.startswith("memory"):
        return Path("agentic") / "memory" / category.removeprefix("memory_")
    group = "live" if category.startswith("live") else "non_live" if category in SINGLE_TURN else "multi_turn"
    return Path(group)


def write_results(root: Path, results: dict[str, dict[str, object]]) -> None:
    """Result files: by category and id what the package's handler gives."""
    for category, by_id in results.items():
        folder = root / "result" / MODEL.replace("/", "_") / _place(category)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": name, "result": result}) + "\n" for name, result in by_id.items()]
        (folder / f"BFCL_v4_{category}_result.json").write_text("".join(lines))


def read_results(root: Path, category: str) -> dict[str, object]:
    """What `bfcl generate` wrote."""
    path = root / "result" / MODEL.replace("/", "_") / _place(category) / f"BFCL_v4_{category}_result.json"
    return {row["id"]: row["result"] for row in map(json.loads, path.read_text().splitlines())}


def read_wrong(root: Path, category: str) -> tuple[float, frozenset[str]]:
    """The accuracy that `bfcl evaluate` wrote, and the ids of the entries that it calls wrong."""
    path = root / "score" / MODEL.replace("/", "_") / _place(category) / f"BFCL_v4_{category}_score.json"
    header, *rows = map(json.loads, path.read_text().splitlines())
    return header["accuracy"], frozenset(row["id"] for row in rows)
