"""A real Ray cluster on this machine: what one process does, several do too, and what is lost is done again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.nano.heldout import heldout_specs
from spade_agents.policy import Sampling, model_folder
from spade_agents.rollout import GroupRequest, PlaySettings, play_groups
from spade_agents.runtime import Cluster, LocalTable, RayTable, Runtime, find_cluster, open_runtime
from spade_agents.selfplay import resume, train
from spade_agents.telemetry import SilentReporter
from spade_agents.training import DeepSpeedEngineConfig, OptimizerConfig, TorchEngineConfig, agent_samples
from spade_agents.trajectory import TrajectoryGroup
from spade_environments.sandbox import LocalSandboxSettings
from tests.agents.training.conformance import CONFIG, reference_run
from tests.agents.training.conformance import run as updated
from tests.agents.training.toy import toy_llama, toy_samples

pytestmark = pytest.mark.slow

SMALL = {"rank_cpus": 0.1, "engine_cpus": 0.1, "worker_cpus": 0.1}
TABLE = RayTable(address="local", engines=2, workers=2, **SMALL)
ENGINE = TorchEngineConfig(token_budget=4096, optimizer=OptimizerConfig(learning_rate=3e-4))
PLAY = PlaySettings(style="compact", sampling=Sampling(max_tokens=96), concurrency=6)
NANO = model_folder("nano")
REQUESTS = tuple(GroupRequest(spec=spec, seeds=(1, 2, 3, 4)) for spec in heldout_specs("known", 3))


def opened(table: RayTable | LocalTable, beside: Path):
    return open_runtime(table, device="cpu", vllm=None, level="A", beside=beside, tolerance=0.05)


def processes(title: str = "ray::") -> list[psutil.Process]:
    """Those of Ray clusters that this process, or one that it started, has made."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            ours = process.environ().get("RAY_AUTH_TOKEN") == os.environ.get("RAY_AUTH_TOKEN", "")
        except psutil.Error:
            continue
        if ours and process.pid != os.getpid() and any(title in word for word in process.info["cmdline"] or ()):
            found.append(process)
    return found


def left_over(found: list[psutil.Process]) -> list[psutil.Process]:
    """Those that outlive the cluster, which ends them without waiting for their end."""
    _, alive = psutil.wait_procs(found, timeout=60)
    return alive


def tokens(groups: tuple[TrajectoryGroup, ...]) -> list:
    return [
        (play.seed, play.outcome, play.reward, [turn.completion.token_ids for turn in play.turns])
        for group in groups
        for play in group.trajectories
    ]


class Killing:
    """A policy that ends a process at its n-th completion, in mid-play."""

    def __init__(self, policy, at: int, victim) -> None:
        self.policy, self.left, self.victim = policy, at, victim
        self.info, self.style = policy.info, policy.style

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        self.left -= 1
        if self.left == 0:
            os.kill(self.victim(), signal.SIGKILL)
        return await self.policy.complete(conversation, sampling, seed=seed, deadline=deadline)


async def two_rounds(runtime: Runtime, *, at: int = 0, victim=None):
    """Play, update, send the weights, play again with them; the second round may lose a process."""
    engine = runtime.engine(ENGINE, NANO)
    try:
        async with runtime.sandbox(LocalSandboxSettings()) as sandbox, runtime.policy(NANO, None) as policy:
            first = await play_groups(REQUESTS, sandbox, policy, settings=PLAY)
            samples = [sample for group in first for sample in agent_samples(group)]
            metrics = engine.update(samples)
            policy.load_weights(engine.state_dict(), engine.step)
            scores = policy.score(samples[0].token_ids)
            player = Killing(policy, at, victim) if at else policy
            second = await play_groups(REQUESTS, sandbox, player, settings=PLAY)
            return first, samples, metrics, scores, second
    finally:
        engine.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with opened(LocalTable(), tmp_path_factory.mktemp("local")) as runtime:
        return asyncio.run(two_rounds(runtime))


async def test_rounds_on_ray_give_the_tokens_advantages_and_loss_of_one_process(local, tmp_path):
    with opened(TABLE, tmp_path) as runtime:
        assert len(processes("ray::EpisodeWorker")) == 0
        first, samples, metrics, scores, second = await two_rounds(runtime)
        assert runtime.take_losses() == {}
    assert tokens(first) == tokens(local[0])
    assert [(s.token_ids, s.mask, s.advantage) for s in samples] == [
        (s.token_ids, s.mask, s.advantage) for s in local[1]
    ]
    assert any(sample.advantage for sample in samples)
    # Samples are decoded in other company than in one process, which rounds their log-probabilities differently.
    for name in ("loss", "policy_loss", "grad_norm"):
        assert getattr(metrics, name) == pytest.approx(getattr(local[2], name), abs=1e-5), name
    assert scores == pytest.approx(local[3], abs=1e-4)
    assert tokens(second) == tokens(local[4])
    assert tokens(second) != tokens(first)
    assert {turn.completion.weight_version for turn in second[0].trajectories[0].turns} == {1}
    assert not left_over(processes())


@pytest.mark.parametrize(
    ("title", "kind"), [("ray::EpisodeWorker", "environment worker"), ("ray::SamplingEngine", "sampler")]
)
async def test_what_a_killed_process_was_at_is_done_again_and_counted(local, tmp_path, title, kind):
    with opened(TABLE, tmp_path) as runtime:
        *_, second = await two_rounds(runtime, at=9, victim=lambda: processes(title)[0].pid)
        assert runtime.take_losses() == {kind: 1}
        assert runtime.take_losses() == {}
    assert tokens(second) == tokens(local[4])
    retries = [play.counters.get("retries", 0) for group in second for play in group.trajectories]
    # A lost sampler's completions are sampled again by another; a lost worker's episodes are gone.
    assert any(retries) == (kind == "environment worker")
    assert not left_over(processes())


async def test_a_machine_with_a_weaker_sandbox_is_refused(tmp_path):
    weak = LocalSandboxSettings(layers=())
    with (
        opened(RayTable(address="local", engines=0, workers=1, **SMALL), tmp_path) as runtime,
        pytest.raises(UsageError, match=r"at level D on .*, and at level A here"),
    ):
        async with runtime.sandbox(weak):
            pass


def test_two_ranks_train_as_one_process_does_and_a_lost_one_ends_it_with_a_clear_error(tmp_path):
    config = DeepSpeedEngineConfig(optimizer=CONFIG.optimizer, loss=CONFIG.loss, token_budget=CONFIG.token_budget)
    toy_llama().save_pretrained(tmp_path / "toy")
    expected, _ = reference_run()
    with opened(RayTable(address="local", ranks=2, engines=0, workers=0, **SMALL), tmp_path) as runtime:
        engine = runtime.engine(config, tmp_path / "toy")
        for ours, theirs in zip(updated(engine), expected, strict=True):
            assert ours.loss == pytest.approx(theirs.loss, abs=1e-4)
            assert ours.tokens == theirs.tokens
        engine.save(tmp_path / "saved")
        processes("ray::TrainingRank")[1].kill()
        with pytest.raises(InfrastructureError, match=r"(?s)training process \d of 2 was lost.*--resume RUN") as caught:
            engine.update(toy_samples(6))
        assert caught.value.exit_code == 3
        engine.close()
    with opened(RayTable(address="local", ranks=2, engines=0, workers=0, **SMALL), tmp_path) as runtime:
        engine = runtime.engine(config, tmp_path / "toy")
        engine.load(tmp_path / "saved")
        assert engine.step == 3
        engine.close()


RUN = [
    "run.rollouts=2",
    "evaluation.evaluator=none",
    "selfplay.environments=2",
    "selfplay.plays=2",
    "selfplay.hint_plays=2",
    "selfplay.period=1",
    "certificate.seeds=3",
    "training.replay.samples=4",
    "training.engine.precision=fp32",
]
ON_RAY = ["runtime.type=ray", "runtime.address=local", *(f"runtime.{key}={value}" for key, value in SMALL.items())]


class LosingRank(SilentReporter):
    """Ends the training process once the first rollout is told of."""

    def say(self, text: str) -> None:
        if text.startswith("rollout 0"):
            processes("ray::TrainingRank")[0].kill()


def test_a_run_that_lost_its_training_rank_goes_on_from_its_checkpoint_on_either_runtime(tmp_path):
    whole = train("configs/nano_quick.toml", out=tmp_path / "whole", overrides=RUN)
    with pytest.raises(InfrastructureError, match="training process 0 of 1 was lost"):
        train("configs/nano_quick.toml", out=tmp_path / "run", overrides=[*RUN, *ON_RAY], progress=LosingRank())
    result = resume(tmp_path / "run", overrides=["runtime.type=local"])
    assert result.finished
    assert not left_over(processes())
    plays = [[row.get("play") for row in each.rows] for each in (whole, result)]
    assert plays[1] == plays[0]
    for ours, theirs in zip(result.rows, whole.rows, strict=True):
        assert ours["train"]["loss"] == pytest.approx(theirs["train"]["loss"], abs=1e-4)


@pytest.fixture
def standing():
    """The address of a cluster that somebody else has started, with a token of its own."""
    os.environ.setdefault("RAY_AUTH_TOKEN", "5" * 64)  # one for the process, which reads it once
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="ray-") as room:
        program = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--port={port}"]
        options = ["--num-cpus=1", "--include-dashboard=false", f"--temp-dir={room}", "--disable-usage-stats"]
        head = subprocess.Popen([*program, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert any("Ray runtime started" in line for line in head.stdout)
        yield f"127.0.0.1:{port}"
        head.terminate()
        head.wait(60)


async def test_a_cluster_that_is_up_is_joined_by_who_has_its_token_and_outlives_the_run(
    standing, tmp_path, monkeypatch
):
    table = RayTable(address=standing, engines=0, workers=1, **SMALL)
    assert find_cluster(table, ()) == Cluster(1, 1, 0)
    with opened(table, tmp_path) as runtime:
        async with runtime.sandbox(LocalSandboxSettings()) as sandbox:
            async with await sandbox.open(REQUESTS[0].spec) as env:
                await env.reset(1)
                for action in await env.solution():
                    result = await env.step(action)
                assert result.reward == 1.0
            assert processes("ray::EpisodeWorker")
    assert not left_over(processes("ray::EpisodeWorker"))
    assert find_cluster(table, ()) == Cluster(1, 1, 0)
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert "asks for its token: set RAY_AUTH_MODE=token" in find_cluster(table, ()).why


def test_a_killed_run_leaves_no_process_behind(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\nfrom tests.agents.runtime.test_ray import ENGINE, NANO, TABLE, opened\n"
        "with opened(TABLE, Path(sys.argv[1])) as runtime:\n"
        "    runtime.engine(ENGINE, NANO)\n    print('up', flush=True)\n    sys.stdin.read()\n"
    )
    rooms = os.pathsep.join(str(Path.cwd() / room) for room in (".", "tools", "evals", "environments"))
    token = "".join(("0123456789abcdef",) * 4)
    environment = {**os.environ, "PYTHONPATH": rooms, "RAY_AUTH_TOKEN": token, "RAY_AUTH_MODE": "token"}
    driver = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout.readline() == "up\n"

    def left() -> list[psutil.Process]:
        return [p for p in psutil.process_iter() if p.pid != os.getpid() and token_of(p) == token]

    running = left()
    assert len(running) > 3
    driver.kill()
    driver.wait()
    assert not left_over(running)


def token_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("RAY_AUTH_TOKEN")
    except psutil.Error:
        return None
