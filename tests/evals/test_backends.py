"""What runs a checkpoint: a vLLM server or this process, told in the log; and what a simulated user took."""

from __future__ import annotations

import pytest

from spade_agents.errors import UsageError
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.rendering import HermesRenderer
from spade_agents.telemetry import SilentReporter
from spade_evals.cli import main
from spade_evals.cli.tables import log_lines
from spade_evals.evaluate import RunRequest, evaluate
from spade_evals.log import EvalLog
from spade_evals.runner import Prices, RunOptions, make_header, run_suite
from spade_evals.suite import Runtime
from spade_evals.suites.acebench.dialogue import FINISHED
from spade_evals.suites.acebench.suite import AceBenchSuite
from spade_evals.types import ModelFacts
from tests.agents.policy.vllm.standin import StandIn, serving
from tests.agents.tiny import llama, tokenizer
from tests.evals.suites.acebench.oracle import Line
from tests.evals.suites.acebench.scenarios import install, write_entries

ONCE = RunOptions(limit=1, n=1, max_tokens=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    llama(vocabulary=tokenizer().vocabulary_size, max_position_embeddings=4096).save_pretrained(made)
    tokenizer().inner.save(str(made / "tokenizer.json"))
    return str(made)


async def test_a_checkpoint_is_run_by_vllm_or_in_this_process_and_the_log_tells_which(tmp_path, folder):
    with serving(StandIn(context=4096)) as server:
        served = RunRequest(
            model=folder, backend="vllm", vllm=VllmSettings(url=f"{server.url}/v1#spade"), options=ONCE,
            suites=("environments:catalogue",), out=tmp_path / "served",
        )  # fmt: skip
        ((log, summary),) = await evaluate(served)
        assert server.bodies, "the server was asked"
    assert log.header().model.backend == "vllm 0.32.0"
    assert summary.is_complete and summary.tokens_out > 0
    assert "by vllm 0.32.0" in log_lines(log, summary)[-1]
    here = RunRequest(model=folder, options=ONCE, suites=served.suites, out=tmp_path / "here")
    ((log, _),) = await evaluate(here)
    assert log.header().model.backend.startswith("torch 2")
    with pytest.raises(UsageError, match=r"was made with model = .*vllm 0.32.0.*found .*torch 2"):
        await evaluate(
            RunRequest(model=folder, options=ONCE, suites=served.suites, out=tmp_path / "served", resume=True)
        )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "nano", "--backend", "vlm"), "there is no backend 'vlm'; wanted auto, torch, vllm"),
        (("--model", "nano", "--backend", "vllm", "--vllm-python", "/no/python"), "'/no/python', which is no program"),
        (("--model", "scripted:gold", "--backend", "vllm"), "--model scripted:gold is none; leave --backend out"),
    ],
)
def test_a_backend_that_cannot_be_had_is_wrong_usage_and_leaves_no_log(tmp_path, capsys, arguments, told):
    with pytest.raises(SystemExit) as stop:
        main(["run", "--suite", "environments:catalogue", "--out", str(tmp_path / "log"), *arguments])
    assert stop.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


class Phases(SilentReporter):
    """What was told of the step in hand."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def phase(self, name: str) -> None:
        self.told.append(name)


async def test_what_the_simulated_user_took_is_told_apart_and_paid_for(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "cache")
    data = write_entries(tmp_path / "data")
    suite = AceBenchSuite(part="agent_multi_turn", data=data, user_model="smollm2")
    loaded = suite.load(list(suite.columns))
    facts = ModelFacts(target="x"), ModelFacts(target="smollm2")
    header = make_header(suite, loaded, loaded.tasks, model=facts[0], user_model=facts[1], seed=0, options=ONCE)
    log, progress = EvalLog.create(tmp_path / "log", header), Phases()
    agent = ScriptedPolicy(Line(["Which one?", "[turn_on_wifi()]", FINISHED]))
    renderer = HermesRenderer(tokenizer(), style="compact")
    user = ScriptedPolicy(Line(["tea", "green"]), renderer=renderer, context_length=100_000)
    options = RunOptions(prices=Prices(1.0, 1.0, 0.0, 1e6))
    summary = await run_suite(
        suite, log, loaded.tasks, Runtime(policy=agent, user=user), options=options, progress=progress
    )
    await suite.aclose()
    written = sum(len(renderer.render_written(text)) for text in ("tea", "green"))
    assert (summary.tokens_in, summary.tokens_out) == (0, 0)
    assert summary.user_tokens_out == written
    assert summary.user_tokens_in > 1000
    assert f"; user smollm2: {summary.user_tokens_in} in, {written} out" in "\n".join(log_lines(log, summary))
    assert f"k of the user, cost {written:.2f}" in progress.told[-1]
