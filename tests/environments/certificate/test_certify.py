"""What the certifier makes of faults of its own, of imports, and of settings."""

from __future__ import annotations

import asyncio
import time

import pytest

from spade_environments import EnvironmentFault, FaultKind, HostFault
from spade_environments.certificate import (
    Certificate,
    CertificateError,
    CertificateSettings,
    Gate,
    GateStatus,
    NoveltyIndex,
    Verdict,
    certificate_path,
    certify,
    certify_many,
    read_certificate,
    write_certificate,
)
from spade_environments.certificate.certify import GATES
from spade_environments.certificate.plays import Slot
from spade_environments.registry import catalogue

FEW = CertificateSettings(seeds=3)


@pytest.mark.parametrize("error", [HostFault(FaultKind.HOST_FAULT, "step", "lost"), OSError("broken"), KeyError("x")])
@pytest.mark.parametrize("base", ["desk", "dial"])
async def test_a_fault_of_ours_at_any_moment_is_undecided(base, error, make_sandbox, make_spec, request):
    settings = CertificateSettings(seeds=2, probe_steps=3)
    spec = make_spec(request.getfixturevalue(base))
    sound = make_sandbox()
    assert (await certify(spec, sound, settings=settings)).admitted
    moments = [moment for moment, phase in enumerate(sound.operations) if phase != "close"]
    seen = set()
    for moment in {*moments[:3], *moments[3::29]}:
        certificate = await certify(spec, make_sandbox({moment: error}), settings=settings)
        assert certificate.verdict is Verdict.UNDECIDED
        assert certificate.repair == ""
        seen.add(certificate.reason.gate)
    assert seen >= {Gate.LOAD, Gate.RESET, Gate.DETERMINISM, Gate.FLOOR, Gate.ROBUSTNESS}


@pytest.mark.parametrize("gate", list(GATES))
async def test_a_host_fault_planted_in_any_gate_is_undecided(gate, dial, make_sandbox, make_spec):
    async def lost(trial):
        raise HostFault(FaultKind.HOST_FAULT, "step", "the zygote is lost")

    certificate = await certify(
        make_spec(dial), make_sandbox(), settings=FEW, novelty=NoveltyIndex(), gates={**GATES, gate: lost}
    )
    assert certificate.verdict is Verdict.UNDECIDED
    assert (certificate.reason.gate, certificate.reason.status) == (gate, GateStatus.UNDECIDED)
    assert "the zygote is lost" in certificate.reason.evidence


async def test_a_gate_that_hangs_is_undecided(dial, make_sandbox, make_spec):
    async def hanging(trial):
        await asyncio.Event().wait()

    settings = CertificateSettings(seeds=2, seconds=0.05)
    certificate = await certify(make_spec(dial), make_sandbox(), settings=settings, gates={**GATES, Gate.LOAD: hanging})
    assert certificate.verdict is Verdict.UNDECIDED
    assert certificate.reason.gate is Gate.LOAD


@pytest.mark.parametrize("kind", [FaultKind.HOST_FAULT, FaultKind.SANDBOX_SETUP])
async def test_a_fault_kind_of_ours_is_undecided_whatever_class_carries_it(kind, dial, make_sandbox, make_spec):
    sandbox = make_sandbox({3: EnvironmentFault(kind, "step", "slow machine")})
    assert (await certify(make_spec(dial), sandbox, settings=FEW)).verdict is Verdict.UNDECIDED


async def test_a_fault_of_the_environment_is_told_with_kind_phase_and_advice(dial, make_sandbox, make_spec):
    sandbox = make_sandbox({0: EnvironmentFault(FaultKind.TIMEOUT_CPU, "load", "3.0 s of CPU")})
    certificate = await certify(make_spec(dial), sandbox)
    assert certificate.verdict is Verdict.REJECTED
    assert certificate.reason.gate is Gate.LOAD
    assert certificate.repair.startswith("timeout_cpu in load: 3.0 s of CPU. Make it cheaper")


async def test_a_child_whose_budget_other_episodes_used_up_is_replaced_once(dial, make_sandbox, make_spec):
    spec = make_spec(dial)
    sound = make_sandbox()
    await certify(spec, sound, settings=FEW)
    for wanted in ("reset", "step", "solution"):
        moments = [moment for moment, phase in enumerate(sound.operations) if phase == wanted]
        moment = moments[len(moments) // 2]  # the last ones are of children that play one episode
        sandbox = make_sandbox({moment: EnvironmentFault(FaultKind.BUDGET_EPISODE, wanted, "used up")})
        certificate = await certify(spec, sandbox, settings=FEW)
        assert certificate.admitted, certificate.reason
        assert sandbox.children == sound.children + 1


@pytest.mark.parametrize("every", [30, 90])
async def test_an_environment_that_uses_up_child_after_child_is_rejected(every, dial, make_sandbox, make_spec):
    used_up = {
        moment: EnvironmentFault(FaultKind.BUDGET_EPISODE, "step", "20.1 s of CPU") for moment in range(60, 9000, every)
    }
    sandbox = make_sandbox(used_up)
    certificate = await certify(make_spec(dial), sandbox, settings=FEW)
    assert certificate.verdict is Verdict.REJECTED
    assert "Make an episode cheaper" in certificate.repair
    assert len(sandbox.operations) < 60 + 4 * every


async def test_a_gate_without_an_end_says_how_long_it_was_waited_for(dial, make_sandbox, make_spec):
    async def hanging(trial):
        await asyncio.Event().wait()

    settings = CertificateSettings(seeds=2, seconds=0.05)
    certificate = await certify(make_spec(dial), make_sandbox(), settings=settings, gates={**GATES, Gate.LOAD: hanging})
    assert "did not end within 0.05 s" in certificate.reason.evidence


async def test_a_cancelled_certificate_leaves_no_child_open(dial, make_sandbox, make_spec):
    async def hanging(trial):
        await trial.children.reset(Slot.OTHER, 1)
        reached.set()
        await asyncio.Event().wait()

    reached = asyncio.Event()
    sandbox = make_sandbox()
    gates = {**GATES, Gate.RESET: hanging}
    task = asyncio.create_task(certify(make_spec(dial), sandbox, settings=FEW, gates=gates))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sandbox.operations.count("close") == sandbox.children == 2


async def test_a_child_that_cannot_be_closed_leaves_the_certificate_undecided(dial, make_sandbox, make_spec):
    sound = make_sandbox()
    await certify(make_spec(dial), sound, settings=FEW)
    closing = sound.operations.index("close")
    sandbox = make_sandbox({closing: HostFault(FaultKind.HOST_FAULT, "close", "stuck")})
    assert (await certify(make_spec(dial), sandbox, settings=FEW)).verdict is Verdict.UNDECIDED
    assert sandbox.operations.count("close") == 3


async def test_an_import_without_a_solution_is_unproven(dial, desk, make_sandbox, make_spec):
    for source, gate in ((dial, Gate.GOLD), (desk, Gate.GOALS)):
        spec = make_spec(source.replace("def solution", "def _solution"), kind="imported")
        certificate = await certify(spec, make_sandbox(), settings=FEW)
        assert certificate.verdict is Verdict.UNPROVEN
        assert certificate.reason.gate is gate
        assert not certificate.admitted


async def test_min_gold_steps_can_be_asked_for(dial, make_sandbox, make_spec):
    settings = CertificateSettings(seeds=3, min_gold_steps=3)
    certificate = await certify(make_spec(dial), make_sandbox(), settings=settings)
    assert certificate.reason.gate is Gate.GOLD
    assert "takes 2 messages; wanted at least 3" in certificate.repair


async def test_a_copy_of_a_known_environment_is_not_novel(dial, desk, make_sandbox, make_spec):
    index = NoveltyIndex([("lock_dial", dial)])
    renamed = dial.replace("secret", "target").replace("LockDial", "Safe").replace("Higher.", "More.")
    certificate = await certify(make_spec(renamed), make_sandbox(), settings=FEW, novelty=index)
    assert certificate.reason.gate is Gate.NOVELTY
    assert "lock_dial" in certificate.repair
    assert (await certify(make_spec(desk), make_sandbox(), settings=FEW, novelty=index.admits)).admitted


async def test_gates_that_are_not_asked_for_do_not_run(dial, make_sandbox, make_spec):
    sandbox = make_sandbox()
    settings = CertificateSettings(gates=(Gate.LINT, Gate.LOAD))
    certificate = await certify(make_spec(dial), sandbox, settings=settings)
    assert [result.gate for result in certificate.gates] == [Gate.LINT, Gate.LOAD]
    assert sandbox.operations == ["load", "close"]


def test_gates_that_need_others_are_refused_without_them():
    with pytest.raises(ValueError, match="needs gate 'load'"):
        CertificateSettings(gates=(Gate.LINT, Gate.RESET))
    with pytest.raises(ValueError, match="at least 2"):
        CertificateSettings(seeds=1)


async def test_many_are_certified_in_order_and_reported_as_they_come(dial, desk, make_sandbox, make_spec):
    broken = dial.replace("max_turns = 10", "max_turns = 100")
    told = []
    specs = [make_spec(source) for source in (desk, broken, dial)]
    certificates = await certify_many(specs, make_sandbox(), settings=FEW, jobs=2, report=told.append)
    assert [certificate.spec_id for certificate in certificates] == [spec.id for spec in specs]
    assert [certificate.verdict.value for certificate in certificates] == ["certified", "rejected", "certified"]
    assert len(told) == 3


async def test_a_certificate_survives_json_and_is_void_for_other_source(dial, make_sandbox, make_spec, tmp_path):
    spec = make_spec(dial)
    certificate = await certify(spec, make_sandbox(), settings=FEW)
    assert Certificate.from_json(certificate.to_json()) == certificate
    path = tmp_path / "lock_dial.py"
    path.write_text(dial)
    assert read_certificate(path) is None
    assert write_certificate(path, certificate) == certificate_path(path) == tmp_path / "lock_dial.certificate.json"
    assert read_certificate(path) == certificate
    path.write_text(dial.replace("99", "98"))
    assert read_certificate(path) is None
    assert not certificate.holds_for(make_spec(dial.replace("99", "98")))
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_certificate_lies_beside_its_file_and_in_a_pool_where_a_pool_keeps_it(tmp_path):
    assert certificate_path(tmp_path / "environment.py") == tmp_path / "environment.certificate.json"
    (tmp_path / "spec.json").write_text("{}")
    assert certificate_path(tmp_path / "environment.py") == tmp_path / "certificate.json"
    assert certificate_path(tmp_path / "dial.py") == tmp_path / "dial.certificate.json"


async def test_a_certificate_holds_for_a_source_with_carriage_returns(dial, make_sandbox, make_spec, tmp_path):
    spec = make_spec(dial.replace("\n", "\r\n"))
    path = tmp_path / "dial.py"
    path.write_bytes(spec.source.encode())
    certificate = await certify(spec, make_sandbox())
    write_certificate(path, certificate)
    assert read_certificate(path) == certificate


def test_a_file_that_is_no_certificate_is_a_clear_error():
    for text in ("{", "{}", '{"verdict": "fine"}'):
        with pytest.raises(CertificateError, match="certify the environment again"):
            Certificate.from_json(text)


@pytest.mark.parametrize("spec", catalogue(), ids=lambda spec: spec.name)
async def test_a_catalogue_environment_takes_less_than_a_second_of_cpu(spec, make_sandbox):
    started = time.process_time()
    certificate = await certify(spec, make_sandbox())
    assert certificate.admitted, certificate.reason
    assert time.process_time() - started < 1.0


async def test_seeds_come_from_the_source_and_are_the_same_each_time(dial, desk, make_sandbox, make_spec):
    first = await certify(make_spec(dial), make_sandbox(), settings=FEW)
    again = await certify(make_spec(dial), make_sandbox(), settings=FEW)
    other = await certify(make_spec(desk), make_sandbox(), settings=FEW)
    assert first.seeds == again.seeds != other.seeds
    assert len(set(first.seeds)) == 3
