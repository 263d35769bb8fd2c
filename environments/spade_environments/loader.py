"""Loader: a loose source file, with its `NAME.spec.json` beside it, as an EnvironmentSpec. Nothing is executed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spade_environments.spec import EnvironmentSpec, Skill, SpecError

__all__ = ["load_spec", "read_source", "spec_path"]

_SIZE_LIMIT = 256 * 1024


def spec_path(path: str | Path) -> Path:
    """Where the spec of the source file `path` lies: `NAME.py` has `NAME.spec.json` beside it."""
    return Path(path).with_suffix(".spec.json")


def load_spec(path: str | Path) -> EnvironmentSpec:
    """Read a source file and the spec beside it.

    A loose file never counts as part of the catalogue, whatever its spec says of itself: its provenance kind becomes
    `file` where it claims `catalogue` or claims nothing.

    Raises:
        SpecError: a file that is missing, too large or not UTF-8, or a spec that cannot be read or is of other source.
    """
    source = _read(Path(path))
    beside = spec_path(path)
    if not beside.exists():
        raise SpecError(_how_to_make(Path(path), beside))
    try:
        spec = EnvironmentSpec.from_json(read_source(beside), source=source)
    except SpecError as error:
        raise SpecError(f"{beside}: {error}") from error
    if spec.provenance.get("kind", "catalogue") == "catalogue":
        return replace(spec, provenance={**spec.provenance, "kind": "file"})
    return spec


def _read(path: Path) -> str:
    if path.suffix != ".py":
        raise SpecError(f"{path} is not a source file; wanted NAME.py with NAME.spec.json beside it")
    if path.is_dir():
        raise SpecError(f"{path} is a directory; wanted one source file, NAME.py")
    if not path.exists():
        raise SpecError(f"there is no file {path}; check the path (it is taken from {Path.cwd()})")
    return read_source(path)


def read_source(path: Path) -> str:
    """The text of a source file or spec, line ends as they are: an id is of the bytes.

    Raises:
        SpecError: it is missing, no plain file, too large or not UTF-8.
    """
    try:
        if path.exists() and not path.is_file():  # to read a pipe or a device would never end
            raise SpecError(f"{path} is no plain file; wanted one")
        size = path.stat().st_size
        data = path.read_bytes() if size <= _SIZE_LIMIT else b""
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from error
    if size > _SIZE_LIMIT:
        raise SpecError(f"{path} is {size} bytes; at most {_SIZE_LIMIT}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def _how_to_make(path: Path, beside: Path) -> str:
    skills = ", ".join(skill.value for skill in Skill)
    return (
        f"found {path}, but no {beside.name} beside it; write one that holds at least "
        f'{{"name": "{path.stem}", "skill": "SKILL"}} with one of these skills: {skills}'
    )
