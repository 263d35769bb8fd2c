"""Ray is chosen by configuration; what a cluster lacks is told before anything starts."""

from __future__ import annotations

import socket

import pytest

from spade_agents.errors import ConfigurationError, UsageError
from spade_agents.runtime import (
    Cluster,
    LocalRuntime,
    LocalTable,
    RayTable,
    Unreachable,
    find_cluster,
    open_runtime,
    parts_of,
    room_faults,
)
from spade_agents.runtime import cluster as cluster_module
from spade_agents.selfplay.preflight import MAY_CHANGE, prepare
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings

BESIDE = {"device": "cpu", "vllm": None, "level": "A", "tolerance": 0.05}


def chosen(*overrides: str) -> RunSettings:
    return load_settings(RunSettings, "configs/nano_quick.toml", ["runtime.type=ray", *overrides])


def test_a_configuration_that_does_not_speak_of_a_runtime_stays_on_this_machine(tmp_path):
    settings = load_settings(RunSettings, "configs/nano_quick.toml")
    assert settings.runtime == LocalTable()
    with open_runtime(settings.runtime, beside=tmp_path, **BESIDE) as runtime:
        assert isinstance(runtime, LocalRuntime)
        assert runtime.take_losses() == {}


def test_a_recipe_keeps_its_ranks_when_ray_is_chosen():
    settings = load_settings(RunSettings, "configs/games_30b.toml", ["runtime.type=ray"])
    assert isinstance(settings.runtime, RayTable)
    assert settings.runtime.ranks == 16


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("sampler.placement=colocated", "set sampler.placement=separate"),
        ("sampler.devices=0,1", "deals devices out"),
        ("sampler.url=http://localhost:8000", r"runtime\.engines=0"),
    ],
)
def test_a_sampler_that_ray_cannot_place_is_refused(change, told):
    with pytest.raises(ConfigurationError, match=told):
        chosen("sampler.type=vllm", change)


def test_a_given_server_is_sampled_from_by_a_run_without_engines_of_its_own():
    assert chosen("sampler.type=vllm", "sampler.url=http://localhost:8000", "runtime.engines=0").runtime.engines == 0


def test_the_parts_are_counted_in_the_order_of_their_places():
    table = RayTable(ranks=16, engines=4, workers=8, worker_cpus=4)
    assert list(map(str, parts_of(table, device="cuda", served=True))) == [
        "16 training ranks x 1 CPU and 1 GPU",
        "4 samplers x 1 CPU and 1 GPU",
        "8 environment workers x 4 CPU",
    ]
    assert [part.gpus for part in parts_of(table, device="cpu", served=False)] == [0, 0, 0]
    assert [part.name for part in parts_of(RayTable(engines=0, workers=0), device="cpu", served=False)] == [
        "training rank"
    ]


def test_a_cluster_that_is_too_small_is_told_what_it_lacks():
    parts = parts_of(RayTable(ranks=16, engines=8), device="cuda", served=True)
    assert not list(room_faults(parts, Cluster(3, 96, 24)))
    (fault,) = room_faults(parts, Cluster(2, 64, 16))
    assert "runtime asks for 26 CPU and 24 GPU (16 training ranks x 1 CPU and 1 GPU; 8 samplers" in fault
    assert "the Ray cluster has 64 and 16" in fault


def test_an_address_at_which_nothing_listens_is_told_at_once():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    found = find_cluster(RayTable(address=address), ())
    assert isinstance(found, Unreachable)
    assert f"nothing answers at {address} (runtime.address): Connection refused" in found.why


def test_without_its_package_a_run_on_ray_is_wrong_usage_that_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster_module, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"ray is not installed.*pip install 'spade-agents\[ray\]'") as caught:
        prepare(chosen("runtime.address=local"), tmp_path / "run")
    assert caught.value.exit_code == 2
    with (
        pytest.raises(UsageError, match="ray is not installed"),
        open_runtime(RayTable(address="local"), beside=tmp_path, **BESIDE),
    ):
        pass


def test_a_launcher_beside_ray_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="starts the training processes, and a launcher started 2"):
        prepare(chosen("runtime.address=local", "runtime.workers=0", "runtime.engines=0"), tmp_path / "run")


def test_a_run_may_be_resumed_on_another_runtime_but_not_with_another_number_of_ranks():
    assert {"runtime.type", "runtime.address", "runtime.workers", "runtime.engines"} <= MAY_CHANGE
    assert "runtime.ranks" not in MAY_CHANGE
