from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spade_agents.errors import ConfigurationError, UsageError
from spade_agents.selfplay import preflight
from spade_agents.selfplay.pool import OutcomeRow, Pool, pool_specs, trainable_specs
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.trajectory import Outcome, Trajectory
from spade_environments import EnvironmentSpec, Skill
from spade_environments.certificate import Certificate, CertificateSettings, Verdict, write_certificate
from spade_environments.registry import catalogue
from tests.agents.selfplay.scripted import settings


def spec(name):
    return EnvironmentSpec(name=name, source=f"# {name}\n", skill=Skill.DATA_RETRIEVAL, hint="look")


def test_a_new_run_directory_holds_its_resolved_configuration_and_manifest(tmp_path):
    chosen = settings("run.name=mine")
    directory = RunDirectory.create(tmp_path / "run", chosen, "A")
    assert directory.settings == chosen
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["sandbox_level"] == "A"
    assert manifest["hardware"]["cpus"] >= 1
    assert {"spade-agents", "torch"} <= set(manifest["versions"])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_existing_directory_is_refused_and_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError, match=r"exists already; give another --out.*--resume"):
        RunDirectory.create(tmp_path / "run", settings(), "A")
    assert list((tmp_path / "run").iterdir()) == []


def test_a_directory_that_cannot_be_made_leaves_nothing_half_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        RunDirectory.create(tmp_path / "file" / "run", settings(), "A")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_no_run_and_a_spoilt_configuration_are_errors(tmp_path):
    with pytest.raises(UsageError, match="is no run directory"):
        RunDirectory.open(tmp_path)
    directory = RunDirectory.create(tmp_path / "run", settings(), "A")
    (tmp_path / "run" / "config.toml").write_text("[run]\nrolouts = 3\n")
    with pytest.raises(ConfigurationError, match=r"did you mean 'run\.rollouts'"):
        _ = directory.settings


def test_records_that_are_damaged_are_named(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", settings(), "A")
    (tmp_path / "run" / "trajectories" / "rollout-000000.jsonl.zst").write_bytes(b"no such thing")
    (tmp_path / "run" / "evaluations" / "rollout-000000.json").write_bytes(b"{")
    with pytest.raises(UsageError, match=r"rollout-000000\.jsonl\.zst cannot be read"):
        list(directory.read_trajectories(0))
    for rollout in (0, 1):
        with pytest.raises(UsageError, match=rf"rollout-00000{rollout}\.json cannot be read"):
            directory.read_evaluation(rollout)


def test_a_pool_keeps_line_ends_and_names_what_is_damaged(tmp_path):
    pool, kept = Pool(tmp_path), replace(spec("a"), source="# a\r\n")
    pool.add(kept, None)
    assert pool.spec(kept.id) == kept
    (tmp_path / kept.id / "certificate.json").write_text("{")
    with pytest.raises(UsageError, match=r"certificate\.json cannot be read"):
        pool.certificate(kept.id)
    (tmp_path / kept.id / "outcomes.jsonl").write_text('{"rollout": "x"}\n')
    with pytest.raises(UsageError, match="the outcomes of"):
        pool.outcomes(kept.id)


def test_plays_are_kept_whole_and_cut_back_to_a_rollout(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", settings(), "A")
    play = Trajectory(environment_id="e", seed=1, outcome=Outcome.SCORED, reward=1.0, info={"met": True})
    for rollout in range(3):
        directory.write_trajectories(rollout, [play, play])
        directory.metrics.append({"rollout": rollout})
    assert list(directory.read_trajectories(2)) == [play, play]
    directory.truncate(rollout=2, metrics_rows=2)
    assert list(directory.read_trajectories(1)) == [play, play]
    assert list(directory.read_trajectories(2)) == []
    assert len(directory.metrics.rows()) == 2


def test_a_pool_keeps_environments_in_order_and_is_cut_back_to_a_checkpoint(tmp_path):
    pool = Pool(tmp_path)
    first, second = spec("first"), spec("second")
    for each in (first, second):
        pool.add(each, None)
        for rollout in (0, 1):
            pool.record(each.id, OutcomeRow(rollout=rollout, unhinted=(1.0, None), win_rate=1.0))
    pool.index((second.id, first.id))
    assert pool.ids() == (second.id, first.id)
    assert pool.spec(first.id) == first
    assert pool_specs(str(tmp_path)) == (second, first)
    pool.truncate((first.id,), rollout=1)
    assert pool.ids() == (first.id,)
    assert [row.rollout for row in pool.outcomes(first.id)] == [0]
    assert not (tmp_path / second.id).exists()


def certificate_of(environment, verdict=Verdict.CERTIFIED):
    return Certificate(
        spec_id=environment.id, name=environment.name, verdict=verdict, gates=(), settings=CertificateSettings()
    )


@pytest.mark.parametrize(
    ("certificate", "told"),
    [
        (None, "has no certificate"),
        (certificate_of(spec("it"), Verdict.UNPROVEN), "is unproven"),
        (certificate_of(spec("it"), Verdict.UNDECIDED), "is undecided"),
        (certificate_of(spec("it"), Verdict.REJECTED), "is rejected"),
        (certificate_of(spec("other")), "of other source"),
    ],
)
def test_a_pool_with_an_environment_that_is_not_proven_can_be_played_and_not_trained_on(tmp_path, certificate, told):
    pool = Pool(tmp_path)
    pool.add(spec("proven"), certificate_of(spec("proven")))
    pool.add(catalogue()[0], None)
    pool.index((spec("proven").id, catalogue()[0].id))
    assert trainable_specs(str(tmp_path)) == (spec("proven"), pool.spec(catalogue()[0].id))
    pool.add(spec("it"), certificate)
    pool.index((spec("proven").id, catalogue()[0].id, spec("it").id))
    assert len(pool_specs(str(tmp_path))) == 3
    with pytest.raises(UsageError, match=rf"'it' in the pool .* {told}: it can be played, and is never trained on"):
        trainable_specs(str(tmp_path))


def written(folder, name, certificate):
    made = spec(name)
    (folder / f"{name}.py").write_text(made.source)
    (folder / f"{name}.spec.json").write_text(made.to_json(source=False))
    if certificate is not None:
        write_certificate(folder / f"{name}.py", certificate)
    return made


def test_files_with_their_specs_and_certificates_beside_them_are_a_pool(tmp_path):
    second, first = (written(tmp_path, name, certificate_of(spec(name))) for name in ("second", "first"))
    (tmp_path / "notes.py").write_text("")
    assert pool_specs(str(tmp_path)) == trainable_specs(str(tmp_path))
    assert [found.id for found in pool_specs(str(tmp_path))] == [first.id, second.id]
    written(tmp_path, "unsure", None)
    assert len(pool_specs(str(tmp_path))) == 3
    with pytest.raises(UsageError, match=r"has no certificate.*run spade env certify .*unsure\.py"):
        trainable_specs(str(tmp_path))
    (tmp_path / "first.spec.json").write_text("[]")
    with pytest.raises(UsageError, match=r"first\.py cannot be read"):
        pool_specs(str(tmp_path))


def test_a_run_on_a_pool_that_holds_an_unproven_environment_is_refused_before_it_starts(tmp_path):
    pool = Pool(tmp_path / "pool")
    pool.add(spec("it"), certificate_of(spec("it"), Verdict.UNPROVEN))
    pool.index((spec("it").id,))
    chosen = settings("selfplay.pool.type=static", f"selfplay.pool.source={tmp_path / 'pool'}")
    with pytest.raises(UsageError, match=r"'it' in the pool .* is unproven"):
        preflight.prepare(chosen)
    assert trainable_specs("catalogue") == catalogue()


def test_a_missing_pool_and_a_changed_source_are_errors(tmp_path):
    with pytest.raises(UsageError, match="is no pool"):
        pool_specs(str(tmp_path / "none"))
    pool = Pool(tmp_path)
    pool.add(spec("first"), None)
    (tmp_path / spec("first").id / "environment.py").write_text("# other\n")
    with pytest.raises(UsageError, match="cannot be read"):
        pool.spec(spec("first").id)
