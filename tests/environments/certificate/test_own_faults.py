"""Crash, timeout and host fault of the certifier itself, in every gate: undecided, exit 3, no admission, no sample."""

from __future__ import annotations

import asyncio
import functools
import json
from contextlib import asynccontextmanager

import pytest

import spade_environments.certificate
import spade_environments.sandbox
from spade_agents.cli import main
from spade_agents.designer.attempts import AttemptVerdict
from spade_agents.designer.design import Designer, DesignerSettings
from spade_agents.designer.requests import DesignRequest
from spade_agents.policy.protocol import PolicyInfo
from spade_agents.selfplay.design_phase import _waiting
from spade_agents.trajectory import Completion
from spade_environments import FaultKind, HostFault, Skill
from spade_environments.certificate import CertificateSettings, Gate, GateStatus, NoveltyIndex, Verdict, certify
from spade_environments.certificate.certify import GATES

FEW = CertificateSettings(seeds=2, seconds=0.05)


async def passes(trial):
    return "passed"


async def crash(trial):
    raise KeyError("a fault in the gate's own code")


async def memory(trial):
    raise MemoryError


async def host_fault(trial):
    raise HostFault(FaultKind.HOST_FAULT, "step", "the zygote is lost")


async def hang(trial):
    await asyncio.Event().wait()


FAULTS = [crash, memory, host_fault, hang]


def planted(gate, fault):
    """All gates pass, but for one that faults."""
    return {**dict.fromkeys(GATES, passes), gate: fault}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("gate", list(GATES))
async def test_it_is_undecided_and_not_admitted(gate, fault, dial, make_sandbox, make_spec):
    certificate = await certify(
        make_spec(dial), make_sandbox(), settings=FEW, novelty=NoveltyIndex(), gates=planted(gate, fault)
    )
    assert certificate.verdict is Verdict.UNDECIDED
    assert not certificate.admitted
    assert (certificate.reason.gate, certificate.repair) == (gate, "")
    at = list(GATES).index(gate)
    assert {result.status for result in certificate.gates[at + 1 :]} <= {GateStatus.NOT_RUN}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("gate", list(GATES)[:9])
def test_the_command_ends_with_three_and_keeps_a_certificate_that_admits_nothing(
    gate, fault, dial, make_sandbox, tmp_path, monkeypatch, capsys
):
    async def certify_planted(spec, sandbox, *, settings):
        return await certify(spec, sandbox, settings=FEW, gates=planted(gate, fault))

    @asynccontextmanager
    async def open_in_process():
        yield make_sandbox()

    monkeypatch.setattr(spade_environments.certificate, "certify", certify_planted)
    monkeypatch.setattr(spade_environments.sandbox, "open_sandbox", open_in_process)
    (tmp_path / "dial.py").write_text(dial)
    (tmp_path / "dial.spec.json").write_text('{"name": "dial", "skill": "logical deduction"}')
    with pytest.raises(SystemExit) as ended:
        main(["env", "certify", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (ended.value.code, told["verdict"]) == (3, "undecided")
    assert json.loads((tmp_path / "dial.certificate.json").read_text())["verdict"] == "undecided"


class OneDesign:
    """A policy that always writes the same program."""

    info = PolicyInfo(name="one", context_length=100_000, has_tokens=False)

    def __init__(self, source):
        self.text = f"```python\n{source}```"

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        return Completion(text=self.text, token_ids=(1, 2, 3), logprobs=(0.0, 0.0, 0.0))


class PlantedCertifier:
    """The certificate with a fault in one of its gates."""

    def __init__(self, sandbox, gates):
        self.certify = functools.partial(certify, sandbox=sandbox, settings=FEW, novelty=NoveltyIndex(), gates=gates)

    async def certify_hint(self, spec, hint):
        raise AssertionError("an environment that is not certified gets no hint")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("gate", list(GATES))
async def test_a_design_is_not_admitted_and_leaves_no_sample(gate, fault, dial, make_sandbox):
    request = DesignRequest(skill=Skill.LOGICAL_DEDUCTION)
    designer = Designer(
        policy=OneDesign(dial),
        certifier=PlantedCertifier(make_sandbox(), planted(gate, fault)),
        settings=DesignerSettings(attempts=2),
    )
    outcomes = await designer.design_set([request], seed=1)
    assert [attempt.verdict for attempt in outcomes[0].attempts] == [AttemptVerdict.UNDECIDED] * 2
    assert {attempt.gate for attempt in outcomes[0].attempts} == {Gate(gate).value}
    assert outcomes[0].spec is None
    assert _waiting(outcomes) == ()
