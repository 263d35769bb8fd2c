"""Certification in the real sandbox: the catalogue, and what only two processes show."""

from __future__ import annotations

import pytest

from spade_environments.certificate import Gate, Verdict, certify, certify_hint, certify_many
from spade_environments.registry import catalogue
from spade_environments.sandbox import open_sandbox


async def test_every_catalogue_environment_is_certified_by_all_gates():
    async with open_sandbox() as sandbox:
        certificates = await certify_many(catalogue(), sandbox)
    for certificate in certificates:
        assert certificate.verdict is Verdict.CERTIFIED, (certificate.name, certificate.reason)
        assert [result.gate for result in certificate.gates] == list(Gate)[:9]
    assert sum(max(certificate.gold_lengths) >= 10 for certificate in certificates) >= 3


async def test_every_catalogue_hint_is_certified():
    async with open_sandbox() as sandbox:
        for spec in catalogue():
            certificate = await certify_hint(spec, spec.hint, sandbox)
            assert certificate.verdict is Verdict.CERTIFIED, (spec.name, certificate.reason)


async def test_set_order_that_shows_is_rejected(dial, make_spec):
    source = dial.replace(
        '"Say a number."', "f\"Say a number, not {' '.join({'one', 'two', 'three', 'four', 'five'})}.\""
    )
    async with open_sandbox() as sandbox:
        certificate = await certify(make_spec(source), sandbox)
    assert certificate.verdict is Verdict.REJECTED
    assert certificate.reason.gate is Gate.DETERMINISM
    assert "set order" in certificate.repair


async def test_instances_drawn_from_a_set_are_rejected(desk, make_spec):
    source = desk.replace("self.ids = [", "self.ids = [*{'B1', 'B2', 'B3', 'B4'}][:1] + [")
    async with open_sandbox() as sandbox:
        certificate = await certify(make_spec(source), sandbox)
    assert certificate.verdict is Verdict.REJECTED
    assert certificate.reason.gate is Gate.DETERMINISM


async def test_time_uuid_and_module_randomness_are_the_same_in_both_zygotes(dial, make_spec):
    specs = []
    for drawn in ("time.time()", "uuid.uuid4()", "random.random()", "secrets.token_hex(4)"):
        imported = dial.replace("TextEnv\n", f"TextEnv\nimport {drawn.split('.')[0]}\n", 1)
        specs.append(make_spec(imported.replace('"Open the lock: say', f'f"Lock {{{drawn}}}: say')))
    async with open_sandbox() as sandbox:
        for certificate in await certify_many(specs, sandbox):
            assert certificate.verdict is Verdict.CERTIFIED, certificate.reason


async def test_an_endless_loop_is_rejected_for_its_cpu_time(dial, make_spec):
    source = dial.replace("TextEnv\n", "TextEnv\nwhile True: pass\n", 1)
    async with open_sandbox() as sandbox:
        certificate = await certify(make_spec(source), sandbox)
    assert certificate.verdict is Verdict.REJECTED
    assert certificate.reason.gate is Gate.LOAD
    assert certificate.repair.startswith("timeout_cpu in load")


@pytest.mark.parametrize(("line", "gate"), [('"It opens.", 1.0', Gate.GOLD), ('"Say a number.", 0.0', Gate.RESET)])
async def test_a_reward_that_is_no_number_in_range_is_rejected_wherever_it_is_paid(line, gate, dial, make_spec):
    wide = dial.replace("randrange(100)", "randrange(10**9)")
    rewards = ("float('nan')", "float('inf')", "-1.0", "1e999", "True")
    specs = [make_spec(wide.replace(line, f"{line.rsplit(' ', 1)[0]} {reward}")) for reward in rewards]
    async with open_sandbox() as sandbox:
        for certificate in await certify_many(specs, sandbox):
            assert certificate.verdict is Verdict.REJECTED
            assert certificate.reason.gate is gate, certificate.reason
