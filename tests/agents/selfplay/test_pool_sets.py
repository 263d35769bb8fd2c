"""Pools merged, split, counted and told."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from spade_agents.errors import UsageError
from spade_agents.selfplay import pool_sets
from spade_agents.selfplay.lineage import lineage_lines, lineage_of
from spade_agents.selfplay.pool import OutcomeRow, Pool, trainable_specs
from spade_agents.selfplay.pool_card import card_lines, write_card
from spade_agents.selfplay.pool_figures import grounding_of, pool_figures, pool_folder
from spade_agents.selfplay.pool_sets import clusters_of, merge_pools, split_pool
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, CertificateSettings, Gate, GateResult, GateStatus, Verdict
from spade_environments.registry import catalogue


def certified(spec: EnvironmentSpec) -> Certificate:
    gate = GateResult(gate=Gate.GOLD, status=GateStatus.PASSED)
    return Certificate(
        spec_id=spec.id,
        name=spec.name,
        verdict=Verdict.CERTIFIED,
        gates=(gate,),
        settings=CertificateSettings(),
        seeds=(1, 2),
        gold_lengths=(3, 7),
    )


def made(path: Path, specs) -> Path:
    pool = Pool(path)
    for spec in specs:
        pool.add(spec, certified(spec))
    pool.index([spec.id for spec in specs])
    return path


CATALOGUE = list(catalogue())


def copy_of(spec: EnvironmentSpec, number: int) -> EnvironmentSpec:
    """The same program with other comments, and so another id."""
    return spec.with_source(f"{spec.source}\n# copy {number}\n")


def test_a_merge_keeps_the_first_of_copies_with_its_outcomes(tmp_path):
    first = made(tmp_path / "a", CATALOGUE[:3])
    second = made(tmp_path / "b", [CATALOGUE[2], copy_of(CATALOGUE[1], 1), CATALOGUE[4]])
    Pool(first).record(CATALOGUE[0].id, OutcomeRow(rollout=0, unhinted=(1.0, 0.0), win_rate=0.5))
    merged = merge_pools([first, second], tmp_path / "c")
    assert (merged.environments, merged.same, merged.alike) == (4, 1, 1)
    pool = Pool(tmp_path / "c")
    assert pool.ids() == tuple(spec.id for spec in [*CATALOGUE[:3], CATALOGUE[4]])
    assert pool.outcomes(CATALOGUE[0].id)[0].win_rate == 0.5
    assert len(trainable_specs(str(tmp_path / "c"))) == 4


def test_a_merge_into_something_or_of_nothing_writes_nothing(tmp_path):
    first = made(tmp_path / "a", CATALOGUE[:1])
    with pytest.raises(UsageError, match="exists and is left as it is"):
        merge_pools([first], first)
    with pytest.raises(UsageError, match="is no pool"):
        merge_pools([first, tmp_path / "none"], tmp_path / "c")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_near_copies_are_clusters_and_stay_in_one_part(tmp_path):
    copies = [copy_of(CATALOGUE[0], number) for number in range(3)]
    specs = [*CATALOGUE, *copies]
    clusters = clusters_of(specs, 0.9)
    assert sorted(map(len, clusters)) == [1] * 11 + [4]
    sizes = split_pool(made(tmp_path / "a", specs), tmp_path / "parts", {"train": 0.6, "test": 0.4})
    assert sum(sizes.values()) == 15
    assert 5 <= sizes["test"] <= 8
    parts = [set(Pool(tmp_path / "parts" / name).ids()) for name in sizes]
    assert not parts[0] & parts[1]
    family = {spec.id for spec in (CATALOGUE[0], *copies)}
    assert [len(family & part) for part in parts] in ([4, 0], [0, 4])


def test_a_split_is_the_same_for_the_same_seed(tmp_path):
    pool = made(tmp_path / "a", CATALOGUE)
    shares = {"a": 0.5, "b": 0.5}
    ids = []
    for name, seed in (("x", 1), ("y", 1), ("z", 2)):
        split_pool(pool, tmp_path / name, shares, seed=seed)
        ids.append(set(Pool(tmp_path / name / "a").ids()))
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"a": 0.5}, "sum to 0.5"),
        ({"a": 1.5, "b": -0.5}, "sum to 1"),
        ({"../a": 1.0}, "names a folder"),
        ({str(n): 1 / 16 for n in range(16)}, "fewer than the 16"),
    ],
)
def test_shares_that_make_no_split_are_refused(tmp_path, parts, why):
    pool = made(tmp_path / "a", CATALOGUE)
    with pytest.raises(UsageError, match=why):
        split_pool(pool, tmp_path / "out", parts)
    assert not (tmp_path / "out").exists()


def designed(spec: EnvironmentSpec, **provenance) -> EnvironmentSpec:
    return replace(spec, provenance={"kind": "designed", "designer": "m", **provenance})


def test_figures_count_what_a_pool_holds_and_how_hard_it_was(tmp_path):
    specs = [designed(CATALOGUE[0], document="d1", form="single-turn"), designed(CATALOGUE[1]), CATALOGUE[2]]
    path = made(tmp_path / "a", specs)
    rates = {0: (0.5, 0.25, "frontier"), 1: (1.0, 0.0, "mastered")}
    for number, (rate, regret, regime) in rates.items():
        row = OutcomeRow(rollout=0, unhinted=(rate,), win_rate=rate, regret=regret, regime=regime)
        Pool(path).record(specs[number].id, row)
    figures = pool_figures(path)
    assert (figures.environments, figures.certified, figures.gold_steps) == (3, 3, (3, 5, 7))
    assert figures.designers == {"m": 2, "catalogue": 1}
    assert figures.variants == {"single-turn": 1}
    assert figures.attempts is None
    hard = figures.difficulty
    assert (hard.environments, hard.win_rate, hard.learnable, hard.regret) == (2, 0.75, 0.5, 0.125)
    assert hard.regimes == {"mastered": 1, "frontier": 1}
    assert figures.diversity.longest_run == 1
    assert figures.alarms == ()


def test_the_vendi_score_is_told_with_documents_and_without_them_for_as_many_of_each():
    grounded = [designed(spec, document="d") for spec in CATALOGUE[:6]]
    alike = [designed(copy_of(CATALOGUE[6], number)) for number in range(4)]
    found = grounding_of([*grounded, *alike])
    assert found.compared == 4
    assert found.grounded > 0.5 > found.ungrounded
    assert grounding_of(grounded).grounded is None


def test_a_forced_collapse_raises_the_alarm_and_shows_the_run(tmp_path):
    copies = [copy_of(CATALOGUE[0], number) for number in range(12)]
    figures = pool_figures(made(tmp_path / "a", copies))
    assert figures.diversity.longest_run == 12
    assert figures.diversity.vendi < 0.15
    told = " ".join(figures.alarms)
    assert "12 designs in a row are near-duplicates" in told
    assert "Vendi score" in told
    assert sum(line.startswith("ALARM") for line in card_lines(figures)) == len(figures.alarms) >= 3


def test_a_card_is_written_for_people_and_for_programs(tmp_path):
    path = made(tmp_path / "a", CATALOGUE)
    write_card(path, pool_figures(path), {"model": "m", "price": None})
    page, row = (path / "README.md").read_text(), json.loads((path / "card.json").read_text())
    assert "12 environments, 12 of them certified" in page
    assert "* model: m" in page
    assert "price" not in page
    assert (row["facts"]["model"], row["environments"]) == ("m", 12)
    assert len(trainable_specs(str(path))) == 12, "a card does not keep a folder from being a pool"


def test_lineage_tells_where_an_environment_came_from_and_what_became_of_it(tmp_path):
    parent = designed(CATALOGUE[0], run="r", rollout=0, prompt="full-1", document="d7", corpus="abc", variant="execute")
    child = designed(CATALOGUE[1], parents=[parent.id, "f" * 64], attempts=["rejected: gold", "certified"])
    path = made(tmp_path / "environments", [parent, child])
    pool = Pool(path)
    pool.record(child.id, OutcomeRow(rollout=4, unhinted=(1.0, 0.0), hinted=(1.0,), win_rate=0.5, regret=0.25,
                                     regime="frontier", fault="crash"))  # fmt: skip
    assert list(lineage_lines(lineage_of(pool, parent.id))) == [
        "designed: run r, rollout 0, designer m, prompt full-1",
        "grounded in: d7 of corpus abc",
        "asked for: execute",
        "certificate: certified, 1 gate passed on 2 seeds, solution of 3 to 7 steps",
        f"child: {child.id[:12]} {child.name}",
    ]
    assert list(lineage_lines(lineage_of(pool, child.id))) == [
        "designed: designer m",
        f"parent: {parent.id[:12]} {parent.name}",
        "parent: ffffffffffff (not in this pool)",
        "attempt 1: rejected: gold",
        "attempt 2: certified",
        "certificate: certified, 1 gate passed on 2 seeds, solution of 3 to 7 steps",
        "rollout 4: 2 plays without hint, 1 with, win rate 0.50, regret +0.250 (frontier), retired: crash",
    ]
    assert pool_folder(tmp_path) == path


def changed(pool: Path, what: str) -> Path:
    """A pool in which something is damaged, foreign or endless."""
    first = Pool(pool).ids()[0]
    index, folder = pool / "pool.json", pool / first

    def indexed(*ids: object) -> None:
        index.write_text(json.dumps({"environments": [{"id": each} for each in ids]}))

    match what:
        case "an index nested without end":
            index.write_text("[" * 100_000)
        case "an index that is a pipe":
            index.unlink()
            os.mkfifo(index)
        case "an id that is a number":
            indexed(5)
        case "an id that is a list":
            indexed(["a"])
        case "an id with a null in it":
            indexed("a\0b")
        case "an id that leads out of the pool":
            indexed(f"../{pool.name}/{first}")
        case "an id twice":
            indexed(first, first)
        case "a folder of another environment":
            folder.rename(pool / ("0" * 64))
            indexed("0" * 64)
        case "outcomes that are a pipe":
            (folder / "outcomes.jsonl").unlink()
            os.mkfifo(folder / "outcomes.jsonl")
        case "outcomes that are no rows":
            (folder / "outcomes.jsonl").write_bytes(b"\x00\xff\n")
        case "a certificate that is none":
            (folder / "certificate.json").write_text("[]")
        case "a certificate that is a pipe":
            (folder / "certificate.json").unlink()
            os.mkfifo(folder / "certificate.json")
        case "a spec that is a pipe":
            (folder / "spec.json").unlink()
            os.mkfifo(folder / "spec.json")
    return pool


@pytest.mark.parametrize(
    "what",
    [
        "an index nested without end",
        "an index that is a pipe",
        "an id that is a number",
        "an id that is a list",
        "an id with a null in it",
        "an id that leads out of the pool",
        "an id twice",
        "a folder of another environment",
        "outcomes that are a pipe",
        "outcomes that are no rows",
        "a certificate that is none",
        "a certificate that is a pipe",
        "a spec that is a pipe",
    ],
)
def test_a_damaged_pool_is_told_where_it_lies_and_nothing_is_written(tmp_path, what):
    pool = changed(made(tmp_path / "a", CATALOGUE[:3]), what)
    with pytest.raises(UsageError, match=str(pool)):
        pool_figures(pool)
    with pytest.raises(UsageError, match=str(pool)):
        merge_pools([pool], tmp_path / "b")
    with pytest.raises(UsageError, match=str(pool)):
        split_pool(pool, tmp_path / "c", {"train": 0.5, "test": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_else_lies_in_an_environments_folder_does_not_go_along(tmp_path):
    pool = made(tmp_path / "a", CATALOGUE[:2])
    folder = pool / CATALOGUE[0].id
    (folder / "passwords").symlink_to("/etc/passwd")
    (folder / "round").symlink_to(pool)
    os.mkfifo(folder / "pipe")
    merge_pools([pool], tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "b" / CATALOGUE[0].id).iterdir())
    assert names == ["certificate.json", "environment.py", "outcomes.jsonl", "spec.json"]
    assert (tmp_path / "b" / "README.md").read_text().startswith("# b\n")


def test_a_folder_that_another_process_made_meanwhile_is_left_alone(tmp_path, monkeypatch):
    pool = made(tmp_path / "a", CATALOGUE[:2])

    def meanwhile(folder: Path, *rest: object) -> None:
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / "mine").touch()
        write_card(folder, *rest)

    monkeypatch.setattr(pool_sets, "write_card", meanwhile)
    with pytest.raises(UsageError, match="cannot be made: Directory not empty"):
        merge_pools([pool], tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["mine"]


def test_a_certificate_of_other_source_certifies_nothing(tmp_path):
    pool = made(tmp_path / "a", CATALOGUE[:2])
    (pool / CATALOGUE[0].id / "certificate.json").write_text(certified(CATALOGUE[1]).to_json())
    assert pool_figures(pool).certified == 1


@pytest.mark.parametrize("parents", [5, "5", [[5]], None])
def test_a_story_is_told_of_any_provenance(tmp_path, parents):
    spec = replace(CATALOGUE[0], provenance={"kind": "designed", "parents": parents, "attempts": 3})
    pool = made(tmp_path / "a", [spec, CATALOGUE[1]])
    assert "attempt 1: 3" in list(lineage_lines(lineage_of(Pool(pool), spec.id)))
