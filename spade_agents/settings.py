"""TOML configuration into frozen models: overrides, unknown keys as errors, and back to TOML."""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import pydantic
import tomli_w

from spade_agents.errors import ConfigurationError

__all__ = ["Section", "changed_keys", "check_settings", "load_settings", "parse_override", "to_toml", "with_overrides"]

Tree = dict[str, Any]
Model = TypeVar("Model", bound="Section")


class Section(pydantic.BaseModel):
    """One table of a configuration: frozen, and closed against keys it does not know."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def load_settings(model: type[Model], path: Path | str | None, overrides: Sequence[str] = ()) -> Model:
    """Read a TOML file (or, without one, the defaults), apply `key.path=value` overrides, and check everything.

    A file whose first key is `extends`, a list of other files beside it, changes what these say, later ones first.

    Raises:
        ConfigurationError: no such file, not TOML, an unknown key (with the nearest known one) or an unfit value.
    """
    tree: Tree = {}
    origin = "the defaults"
    if path is not None:
        origin = str(path)
        tree = _read(Path(path))
    return check_settings(model, with_overrides(tree, overrides), origin=origin)


def check_settings(model: type[Model], tree: Mapping[str, Any], *, origin: str) -> Model:
    """Settings from a tree of plain values; `origin` opens the error messages.

    Raises:
        ConfigurationError: an unknown key or an unfit value.
    """
    filled = _checked_keys(model, tree, (), origin, model)
    for key, value in _flat(filled).items():
        if isinstance(value, float) and math.isnan(value):
            raise ConfigurationError(f"{origin}: {key} is nan; wanted a number")
    try:
        return model.model_validate(filled)
    except pydantic.ValidationError as error:
        raise ConfigurationError(_told(error, origin)) from error


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """`"training.lr=1e-4"` as `(("training", "lr"), 0.0001)`; the value is TOML, or else plain text.

    Raises:
        ConfigurationError: no `=`, or an empty key.
    """
    key, separator, value = text.partition("=")
    names = tuple(key.strip().split("."))
    if not separator or not all(names):
        raise ConfigurationError(f"override {text!r} is not of the form key.path=value, such as run.rollouts=12")
    try:
        return names, tomllib.loads(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return names, value.strip()


def with_overrides(tree: Mapping[str, Any], overrides: Sequence[str]) -> Tree:
    """A copy of `tree` with each override set, later ones winning; a changed `type` drops the variant's other keys."""
    result = _copied(tree)
    for text in overrides:
        names, value = parse_override(text)
        table = result
        for depth, name in enumerate(names[:-1]):
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigurationError(f"override {text!r}: {'.'.join(names[: depth + 1])} is a value, not a table")
        if names[-1] == "type" and table.get("type", value) != value:
            table.clear()
        table[names[-1]] = value
    return result


def changed_keys(before: Section, after: Section) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, each with both; `None` where a side has no such key."""
    old, new = _flat(before.model_dump(mode="json")), _flat(after.model_dump(mode="json"))
    return {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}


def to_toml(settings: Section) -> str:
    """The whole resolved configuration as TOML, defaults included; `load_settings` reads it back to an equal value."""
    return tomli_w.dumps(_without_none(settings.model_dump(mode="json")))


def _read(path: Path, readers: tuple[Path, ...] = ()) -> Tree:
    """A file's tree over those of the files that it extends; `readers` are the files that led to it."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        origin = f"{readers[-1]} extends {path}, which" if readers else f"the configuration {path}"
        raise ConfigurationError(f"{origin} cannot be read ({error.strerror}); give a .toml file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    bases = tree.pop("extends", [])
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise ConfigurationError(f"{path}: extends is {bases!r}; wanted a list of files, such as ['nano.toml']")
    chain = (*readers, path.resolve())
    merged: Tree = {}
    for base in (path.parent / base for base in bases):
        if base.resolve() in chain:
            raise ConfigurationError(f"{path} extends {base}, which extends it: leave one of them out")
        merged = _merged(merged, _read(base, chain))
    return _merged(merged, tree)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """`over` on top of `under`, table by table; as with overrides, another `type` drops the variant's other keys."""
    if "type" in over and over["type"] != under.get("type", over["type"]):
        return _copied(over)
    merged = _copied(under)
    for key, value in over.items():
        below = merged.get(key)
        is_table = isinstance(value, Mapping)
        merged[key] = _merged(below if isinstance(below, Mapping) else {}, value) if is_table else value
    return merged


def _flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Tree:
    found: Tree = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found |= _flat(value, (*path, key))
        else:
            found[".".join((*path, key))] = value
    return found


def _copied(tree: Mapping[str, Any]) -> Tree:
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in tree.items()}


def _without_none(tree: Mapping[str, Any]) -> Tree:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in tree.items()
        if value is not None
    }


def _checked_keys(
    kind: Any, tree: Mapping[str, Any], path: tuple[str, ...], origin: str, root: type[Section], default: Any = None
) -> Tree:
    """The tree with tags and, from `default` (a value of `kind`), missing keys filled in; raises at an unknown key."""
    fields = _fields(kind)
    filled: Tree = {} if default is None else {name: getattr(default, name) for name in fields}
    for key, value in tree.items():
        if key not in fields:
            raise ConfigurationError(_unknown((*path, key), list(fields), origin, root))
        annotation, usual = fields[key]
        usual = usual if default is None else getattr(default, key)
        variants = _variants(annotation)
        if not variants or not isinstance(value, Mapping):
            filled[key] = value
            continue
        chosen, tagged = _chosen(variants, value, usual)
        if chosen is None:
            filled[key] = tagged
        else:
            same = usual if isinstance(usual, chosen) else None
            filled[key] = _checked_keys(chosen, tagged, (*path, key), origin, root, same)
    return filled


def _chosen(variants: list[Any], value: Mapping[str, Any], default: Any) -> tuple[Any, Tree]:
    """The variant that `value` names by its tag (the default's where it names none), and the tagged value."""
    if len(variants) == 1:
        return variants[0], dict(value)
    tag = value.get("type", getattr(default, "type", None))
    named = [variant for variant in variants if tag in _tags(variant)]
    return (named[0] if named else None), {"type": tag, **value}


def _tags(variant: Any) -> tuple[Any, ...]:
    annotation = _fields(variant)["type"][0]
    return get_args(get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation)


def _fields(kind: Any) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of every field of a model or dataclass."""
    if issubclass(kind, pydantic.BaseModel):
        return {
            name: (Annotated[field.annotation, field], field.get_default(call_default_factory=True))
            for name, field in kind.model_fields.items()
        }
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (hints[field.name], _default(field)) for field in dataclasses.fields(kind)}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _variants(annotation: Any) -> list[Any]:
    """The models and dataclasses that an annotation allows; none for a plain value."""
    if isinstance(annotation, type):
        is_table = issubclass(annotation, pydantic.BaseModel) or dataclasses.is_dataclass(annotation)
        return [annotation] if is_table else []
    if get_origin(annotation) is Literal:
        return []
    return [variant for argument in get_args(annotation) for variant in _variants(argument)]


def _unknown(path: tuple[str, ...], known: list[str], origin: str, root: type[Section]) -> str:
    dotted = ".".join(path)
    near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.6)
    if near:
        advice = f"did you mean {'.'.join((*path[:-1], near[0]))!r}?"
    elif dotted in _all_paths(root, ()):
        advice = f"it belongs to another {'.'.join((*path[:-1], 'type'))}; known here: {', '.join(known)}"
    else:
        everywhere = {name: full for full in _all_paths(root, ()) if (name := full.rpartition(".")[2])}
        moved = difflib.get_close_matches(path[-1], list(everywhere), n=1, cutoff=0.8)
        advice = f"did you mean {everywhere[moved[0]]!r}?" if moved else f"known here: {', '.join(known)}"
    return f"{origin}: unknown key {dotted!r}; {advice}"


def _all_paths(kind: Any, path: tuple[str, ...]) -> Iterator[str]:
    for name, (annotation, _) in _fields(kind).items():
        yield ".".join((*path, name))
        for variant in _variants(annotation):
            yield from _all_paths(variant, (*path, name))


def _told(error: pydantic.ValidationError, origin: str) -> str:
    lines = []
    for fault in error.errors(include_url=False):
        where, value = ".".join(str(part) for part in fault["loc"]), fault["input"]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "union_tag_invalid":
            where, value = f"{where}.type", fault["ctx"]["tag"]
            message = f"wanted one of {fault['ctx']['expected_tags']}"
        # A rule over a whole table names the keys that it is about; the table's other values would only bury them.
        is_table = isinstance(value, Mapping | Section) or dataclasses.is_dataclass(value)
        found = (f"{where}: " if is_table else f"{where} is {value!r}: ") if where else ""
        lines.append(f"{origin}: {found}{message}")
    return "\n".join(lines)
