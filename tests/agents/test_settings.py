from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pydantic
import pytest

from spade_agents.errors import ConfigurationError
from spade_agents.settings import Section, load_settings, parse_override, to_toml, with_overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    type: Literal["plain"] = "plain"
    rate: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    type: Literal["sharded"] = "sharded"
    ranks: int = 2
    inner: Plain = field(default_factory=Plain)


Engine = Annotated[Plain | Sharded, pydantic.Field(discriminator="type")]


class Cosine(Section):
    type: Literal["cosine"] = "cosine"
    least: float = 0.1
    turns: int = 2


class Flat(Section):
    type: Literal["flat"] = "flat"


class Training(Section):
    steps: int = pydantic.Field(default=3, gt=0)
    warm: int = 0
    engine: Engine = Plain()
    schedule: Annotated[Cosine | Flat, pydantic.Field(discriminator="type")] = Cosine(turns=5)

    @pydantic.model_validator(mode="after")
    def _ends_warm(self) -> Training:
        if self.warm > self.steps:
            raise ValueError(f"warm is {self.warm}; wanted at most steps, {self.steps}")
        return self


class Settings(Section):
    name: str = "tiny"
    training: Training = Training()
    skills: tuple[str, ...] = ("a", "b")


def file_with(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_a_file_and_overrides_give_frozen_settings(tmp_path):
    path = file_with(tmp_path, 'name = "mine"\n[training]\nsteps = 5\n')
    settings = load_settings(Settings, path, ["training.engine.rate=0.5", "skills=['x']"])
    assert settings == Settings(name="mine", training=Training(steps=5, engine=Plain(rate=0.5)), skills=("x",))
    with pytest.raises(pydantic.ValidationError):
        settings.name = "other"


def test_settings_survive_being_written_and_read(tmp_path):
    settings = load_settings(Settings, None, ["training.engine.type=sharded", "training.engine.ranks=4"])
    assert isinstance(settings.training.engine, Sharded)
    assert load_settings(Settings, file_with(tmp_path, to_toml(settings))) == settings


@pytest.mark.parametrize(
    ("override", "advice"),
    [
        ("training.step=4", "did you mean 'training.steps'"),
        ("trainin.steps=4", "did you mean 'training'"),
        ("steps=4", "did you mean 'training.steps'"),
        ("training.engine.rats=4", "did you mean 'training.engine.rate'"),
        ("training.schedule.leats=4", "unknown key 'training.schedule.leats'; did you mean 'training.schedule.least'"),
        ("training.engine.ranks=4", "belongs to another training.engine.type; known here: type, rate"),
        ("qqq=4", "known here: name, training, skills"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_known_one(override, advice):
    with pytest.raises(ConfigurationError, match=advice) as caught:
        load_settings(Settings, None, [override])
    assert caught.value.exit_code == 2


def test_an_unknown_key_in_a_nested_dataclass_is_an_error(tmp_path):
    path = file_with(tmp_path, '[training.engine]\ntype = "sharded"\ninner = {speed = 1.0}\n')
    with pytest.raises(ConfigurationError, match=r"unknown key 'training\.engine\.inner\.speed'"):
        load_settings(Settings, path)


@pytest.mark.parametrize("override", ["training.steps=0", "training.steps=many", "training.engine.type=quantum"])
def test_an_unfit_value_is_named_with_its_key(override):
    with pytest.raises(ConfigurationError, match=r"the defaults: training\."):
        load_settings(Settings, None, [override])


def test_an_unknown_variant_is_told_with_those_that_there_are():
    with pytest.raises(ConfigurationError) as caught:
        load_settings(Settings, None, ["training.engine.type=quantum"])
    assert str(caught.value) == "the defaults: training.engine.type is 'quantum': wanted one of 'plain', 'sharded'"


def test_a_rule_over_a_table_is_told_without_all_of_the_tables_values():
    with pytest.raises(ConfigurationError) as caught:
        load_settings(Settings, None, ["training.warm=4"])
    assert str(caught.value) == "the defaults: training: warm is 4; wanted at most steps, 3"


def test_a_section_given_in_part_keeps_the_rest_of_its_default():
    settings = load_settings(Settings, None, ["training.schedule.least=0.5"])
    assert settings.training.schedule == Cosine(least=0.5, turns=5)


def test_a_table_given_in_part_keeps_the_rest_of_its_default():
    class Outer(Section):
        engine: Engine = Sharded(ranks=8, inner=Plain(rate=0.7))

    settings = load_settings(Outer, None, ["engine.inner.type=plain", "engine.ranks=3"])
    assert settings.engine == Sharded(ranks=3, inner=Plain(rate=0.7))
    assert load_settings(Outer, None, ["engine.type=plain"]).engine == Plain()


def test_a_missing_file_and_one_that_is_not_toml_are_errors(tmp_path):
    with pytest.raises(ConfigurationError, match=r"give a \.toml file"):
        load_settings(Settings, tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match="is not TOML"):
        load_settings(Settings, file_with(tmp_path, "name = = 3"))
    with pytest.raises(ConfigurationError, match="is not TOML"):
        load_settings(Settings, file_with(tmp_path, "name = " + "[" * 5000))


def test_an_override_is_toml_or_else_plain_text():
    assert parse_override("a.b=1e-4") == (("a", "b"), 1e-4)
    assert parse_override("a=[1, 2]") == (("a",), [1, 2])
    assert parse_override("a=runs/one") == (("a",), "runs/one")
    for text in ("a.b", "=3", "a..b=1"):
        with pytest.raises(ConfigurationError, match=r"key\.path=value"):
            parse_override(text)


def test_an_override_below_a_plain_value_is_an_error_and_a_new_type_drops_the_old_keys():
    with pytest.raises(ConfigurationError, match="name is a value, not a table"):
        with_overrides({"name": "x"}, ["name.first=y"])
    tree = with_overrides({"engine": {"type": "plain", "rate": 1.0}}, ["engine.type=sharded", "engine.ranks=3"])
    assert tree == {"engine": {"type": "sharded", "ranks": 3}}


def test_a_file_changes_what_the_files_it_extends_say(tmp_path):
    (tmp_path / "base.toml").write_text('name = "base"\n[training]\nsteps = 5\nwarm = 1\n')
    (tmp_path / "engine.toml").write_text('[training.engine]\ntype = "sharded"\nranks = 8\n')
    (tmp_path / "sub").mkdir()
    middle = tmp_path / "sub" / "middle.toml"
    middle.write_text('extends = ["../base.toml", "../engine.toml"]\n[training]\nsteps = 7\n')
    settings = load_settings(Settings, middle, ["training.warm=2"])
    assert settings == Settings(name="base", training=Training(steps=7, warm=2, engine=Sharded(ranks=8)))
    # Another type drops what belonged to the one below it.
    last = file_with(tmp_path, 'extends = ["sub/middle.toml"]\n[training.engine]\ntype = "plain"\n')
    assert load_settings(Settings, last).training.engine == Plain()
    assert load_settings(Settings, file_with(tmp_path, to_toml(settings))) == settings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extends = ["none.toml"]', r"extends .*none\.toml, which cannot be read"),
        ('extends = "config.toml"', "wanted a list of files"),
        ('extends = ["config.toml"]', "which extends it"),
        ("[training]\nextends = ['a']", r"unknown key 'training\.extends'"),
    ],
)
def test_a_file_that_extends_what_it_cannot_is_an_error(tmp_path, text, told):
    with pytest.raises(ConfigurationError, match=told):
        load_settings(Settings, file_with(tmp_path, text))
