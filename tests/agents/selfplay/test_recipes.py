"""Every shipped configuration is read, says what the method's table says, and is told with its needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from spade_agents.cli.configurations import PARTS, shipped_configurations
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings, to_toml

CONFIGS = sorted(Path("configs").rglob("*.toml"))
RUNS = shipped_configurations()


def load(name: str) -> RunSettings:
    return load_settings(RunSettings, RUNS[name])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to("configs").with_suffix("")))
def test_every_shipped_configuration_is_read_and_survives_being_written(path, tmp_path):
    settings = load_settings(RunSettings, path)
    (tmp_path / "config.toml").write_text(to_toml(settings))
    assert load_settings(RunSettings, tmp_path / "config.toml") == settings


def test_every_file_is_a_run_of_its_own_name_or_a_part_of_others():
    assert len(RUNS) == len([path for path in CONFIGS if path.parent.name not in PARTS])
    assert len({load(name).run.name for name in RUNS}) == len(RUNS)


# Columns of the method's table: rollouts, environments, period, skills, hint plays, hint tokens, designer tokens, KL,
# corpus words.
TABLE = {
    "games_4b": (400, 24, 4, 3, 16, 4096, 16_384, 0.0, 6000),
    "games_8b": (400, 24, 4, 3, 16, 4096, 20_000, 0.005, 6000),
    "games_30b": (400, 24, 4, 3, 16, 4096, 16_384, 0.0, 6000),
    "tools_4b": (500, 16, 32, 6, 4, 512, 16_384, 0.005, 4000),
    "tools_8b": (400, 24, 8, 6, 16, 2048, 20_000, 0.005, 4000),
    "tools_30b": (400, 24, 8, 6, 16, 2048, 16_384, 0.005, 4000),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_recipe_has_the_constants_of_its_column(name):
    settings = load(name)
    selfplay, call = settings.selfplay, settings.designer.call
    assert (
        settings.run.rollouts,
        selfplay.environments,
        selfplay.period,
        len(settings.designer.skills),
        selfplay.hint_plays,
        call.hint_sampling.max_tokens,
        call.sampling.max_tokens,
        settings.training.engine.loss.kl_coefficient,
        settings.designer.corpus_words,
    ) == TABLE[name]
    assert selfplay.plays == 16


@pytest.mark.parametrize("name", TABLE)
def test_a_recipe_has_the_constants_that_all_share(name):
    settings = load(name)
    engine, memory = settings.training.engine, settings.designer.memory
    optimizer = engine.optimizer
    assert (optimizer.learning_rate, optimizer.beta1, optimizer.beta2) == (1e-6, 0.9, 0.98)
    assert (optimizer.weight_decay, optimizer.gradient_clip, optimizer.schedule.warmup) == (0.1, 1.0, 0)
    assert (engine.loss.clip_low, engine.loss.clip_high, engine.loss.importance_cap) == (0.2, 0.28, 2.0)
    assert (engine.updates_per_rollout, settings.training.batch_samples) == (1, 0)
    play, call = settings.selfplay.play.sampling, settings.designer.call
    assert (play.temperature, call.sampling.temperature, call.hint_sampling.temperature) == (0.6, 0.6, 0.3)
    assert (play.max_tokens, play.top_p, play.top_k, settings.sampler.context_length) == (8192, 1.0, 0, 32_768)
    assert (memory.size, memory.count, memory.top, memory.low, memory.high) == (200, 2, 10, 0.15, 0.85)
    assert (call.attempts, settings.training.role_weight.cap) == (5, 50.0)
    assert settings.reward.type == ("regret_only" if name == "tools_4b" else "blend")
    assert not settings.selfplay.mask_truncated


def test_the_late_phase_has_a_harder_band_and_a_longer_context():
    late = load("games_4b_late")
    assert (late.reward.band.low, late.reward.band.high, late.reward.band.ramp) == (0.2, 0.4, 0.2)
    assert (late.sampler.context_length, late.model.start) == (49_152, "runs/games_4b")


def changes(name: str) -> dict[str, object]:
    from spade_agents.settings import changed_keys

    different = changed_keys(load("games_30b"), load(name))
    return {
        key: new
        for key, (_, new) in different.items()
        if key != "run.name" and new is not None and not key.startswith("designer.policy.endpoint.")
    }


@pytest.mark.parametrize("name", ["frozen_designer", "frozen_designer_no_memory", "external_designer"])
def test_a_frozen_designer_leaves_its_endpoint_as_it_is_by_default(name):
    policy = load(f"baselines/{name}").designer.policy
    assert policy.endpoint == type(policy)().endpoint


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("ablations/no_memory", {"designer.memory.enabled": False}),
        ("ablations/no_corpus", {"designer.corpus": "none"}),
        ("ablations/no_memory_no_corpus", {"designer.memory.enabled": False, "designer.corpus": "none"}),
        ("ablations/two_skills", {"designer.skills": ["mathematical reasoning", "logical deduction"]}),
        ("ablations/regret_only", {"reward.type": "regret_only"}),
        ("ablations/anchor_only", {"reward.type": "anchor_only", "selfplay.hint_plays": 0}),
        (
            "ablations/learning_potential",
            {"reward.type": "learning_potential", "reward.fast": 0.98, "reward.slow": 0.85, "selfplay.hint_plays": 0},
        ),
        ("baselines/frozen_designer", {"designer.policy.type": "frozen", "designer.policy.target": ""}),
        (
            "baselines/frozen_designer_no_memory",
            {"designer.policy.type": "frozen", "designer.policy.target": "", "designer.memory.enabled": False},
        ),
        (
            "baselines/external_designer",
            {"designer.policy.type": "frozen", "designer.policy.target": "https://api.openai.com/v1#gpt-5.5"},
        ),
        (
            "baselines/fixed_pool",
            {"selfplay.pool.type": "static", "selfplay.pool.source": "pools/fixed", "selfplay.hint_plays": 0},
        ),
    ],
)
def test_an_ablation_differs_from_its_recipe_in_what_it_is_about_and_nothing_else(name, wanted):
    assert changes(name) == wanted


@pytest.mark.parametrize(("name", "source"), [("reasoning_gym", "reasoning_gym"), ("rlve", "rlve")])
def test_the_libraries_of_fixed_pools_have_frontier_selection_too(name, source):
    frontier = load(f"baselines/{name}_frontier" if name == "reasoning_gym" else f"baselines/{name}")
    assert frontier.selfplay.pool.type == "frontier"
    assert frontier.selfplay.pool.source == f"spade_evals.pools:{source}"


@pytest.mark.parametrize("name", ["qwen3_0.6b_24gb", "qwen3_1.7b_24gb"])
def test_a_recipe_for_one_gpu_fits_beside_its_sampler(name):
    from spade_agents.selfplay.readiness import Machine, machine_faults
    from spade_agents.training.devices import Device

    settings = load(name)
    card = Device(name="a card", memory=24 * 10**9)
    machine = Machine(processes=1, devices=(card,), memory=64 * 10**9, disk=10**12)
    assert [
        str(fault) for fault in machine_faults(settings, machine) if "vLLM is not installed" not in str(fault)
    ] == []
