"""The project's shape: what a light command imports, what the wheel holds, and which layers exist."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS = {
    "spade_agents": ROOT / "spade_agents",
    "spade_tools": ROOT / "tools" / "spade_tools",
    "spade_evals": ROOT / "evals" / "spade_evals",
    "spade_environments": ROOT / "environments" / "spade_environments",
}
HEAVY = {"torch", "transformers", "deepspeed", "mcp", "numpy", "jinja2", "tokenizers", "safetensors"}

LIGHT_COMMANDS = [
    ["env", "list"],
    ["env", "list", "--json"],
    ["--help"],
    ["train", "--help"],
    ["demo", "--help"],
    ["report", "--help"],
    ["env", "certify", "--help"],
]


def imported_by(*arguments: str) -> set[str]:
    """Top-level modules in a fresh process after `spade` has run with these arguments."""
    code = (
        "import json, sys\n"
        "from spade_agents.cli import main\n"
        "try:\n"
        f"    main({list(arguments)!r})\n"
        "except SystemExit as ended:\n"
        "    assert not ended.code, ended.code\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", LIGHT_COMMANDS, ids=" ".join)
def test_a_light_command_imports_no_heavy_library(arguments: list[str]):
    assert not HEAVY & imported_by(*arguments)


def test_certifying_an_environment_needs_no_model_library():
    assert not {"torch", "transformers", "deepspeed", "mcp"} & imported_by("env", "certify", "word_machine")


def test_the_package_loads_its_entry_points_when_they_are_first_used():
    import spade_agents
    from spade_agents.selfplay import train

    assert spade_agents.train is train
    assert set(spade_agents.__all__) <= set(dir(spade_agents))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        spade_agents.trian  # noqa: B018


def test_every_module_says_what_it_is_in_its_first_line():
    silent = [
        path.relative_to(ROOT)
        for folder in ROOMS.values()
        for path in folder.rglob("*.py")
        if "catalogue" not in path.parts and not _first_line_tells(path)
    ]
    assert silent == []


def test_no_file_is_longer_than_four_hundred_lines():
    long = [
        path.relative_to(ROOT)
        for folder in ROOMS.values()
        for path in folder.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 400
    ]
    assert long == []


def test_no_module_is_called_by_what_it_is_not():
    vague = {"utils", "helpers", "common", "misc"}
    found = [path for folder in ROOMS.values() for path in folder.rglob("*.py") if path.stem in vague]
    assert found == []


def test_the_layers_of_the_contract_name_every_part_of_spade_agents():
    contract = next(c for c in PYPROJECT["tool"]["importlinter"]["contracts"] if c["name"] == "inside spade_agents")
    named = {part.strip(" ()") for layer in contract["layers"] for part in layer.split("|")}
    parts = {path.stem for path in ROOMS["spade_agents"].iterdir() if path.suffix == ".py" or _is_package(path)}
    assert parts - named - {"__init__"} == set()


def test_every_pin_meets_the_range_that_the_project_declares():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = dict(line.split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    extras = PYPROJECT["project"]["optional-dependencies"]
    declared = [*PYPROJECT["project"]["dependencies"], *extras["train"], *extras["dev"]]
    for requirement in map(Requirement, declared):
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{name} is declared, but constraints.txt does not pin it"
        assert requirement.specifier.contains(pins[name]), f"{name}=={pins[name]} is outside {requirement.specifier}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_four_packages_and_nothing_beside_them(wheel: zipfile.ZipFile):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(ROOMS)


def test_the_wheel_holds_every_file_of_the_packages(wheel: zipfile.ZipFile):
    names = set(wheel.namelist())
    for package, folder in ROOMS.items():
        paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {f"{package}/{path.relative_to(folder)}" for path in paths} - names == set()


@pytest.mark.parametrize(
    "name",
    [
        "spade_agents/py.typed",
        "spade_tools/py.typed",
        "spade_evals/py.typed",
        "spade_environments/py.typed",
        "spade_agents/report/templates/report.html",
        "spade_agents/report/templates/style.css",
        "spade_agents/designer/data/corpus.jsonl",
        "spade_agents/cli/scaffolds/text.py.txt",
        "spade_agents/cli/scaffolds/tool.py.txt",
        "spade_environments/catalogue/ticket_desk.spec.json",
    ],
)
def test_the_wheel_holds_what_is_not_source(wheel: zipfile.ZipFile, name: str):
    assert name in wheel.namelist()


def test_the_wheel_holds_every_configuration(wheel: zipfile.ZipFile):
    wanted = {f"spade_agents/configs/{path.name}" for path in (ROOT / "configs").glob("*.toml")}
    assert wanted <= set(wheel.namelist())


def _first_line_tells(path: Path) -> bool:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.startswith(('"""', 'r"""')) and len(first.strip('r". ')) > 10


def _is_package(path: Path) -> bool:
    return path.is_dir() and (path / "__init__.py").exists()
