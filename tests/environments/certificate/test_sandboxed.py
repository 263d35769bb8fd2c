"""Certification in the real sandbox: the catalogue, and what only two processes show."""

from __future__ import annotations

import json

import pytest

from spade_environments import ToolCall
from spade_environments.certificate import CertificateSettings, Gate, Verdict, certify, certify_hint, certify_many
from spade_environments.registry import catalogue
from spade_environments.sandbox import open_sandbox


async def test_every_catalogue_environment_is_certified_by_all_gates():
    async with open_sandbox() as sandbox:
        certificates = await certify_many(catalogue(), sandbox)
    for certificate in certificates:
        assert certificate.verdict is Verdict.CERTIFIED, (certificate.name, certificate.reason)
        assert [result.gate for result in certificate.gates] == list(Gate)[:9]
    assert sum(max(certificate.gold_lengths) >= 10 for certificate in certificates) >= 3


@pytest.mark.slow
async def test_no_catalogue_environment_is_rejected_on_fifty_seeds():
    settings = CertificateSettings(seeds=50, seconds=600.0)
    async with open_sandbox() as sandbox:
        certificates = await certify_many(catalogue(), sandbox, settings=settings)
    assert len(certificates) >= 12
    for certificate in certificates:
        assert certificate.verdict is Verdict.CERTIFIED, (certificate.name, certificate.reason)
        assert len(certificate.gold_lengths) == 50


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


SHOWN = {
    "its own seed": "seed",
    "the time": "time.time()",
    "a date": "datetime.datetime.now().isoformat()",
    "an identifier": "uuid.uuid4()",
    "another identifier": "uuid.uuid1()",
    "a secret": "secrets.token_hex(8)",
    "entropy": "random.SystemRandom().random()",
    "an unseeded generator": "random.Random().random()",
    "an address": "id(self)",
    "the text of an object": "object()",
    "a hash of text": "hash('spade')",
    "the order of a set": "' '.join({'one', 'two', 'three', 'four', 'five', 'six'})",
    "the order of a set of objects": "[item.name for item in {Item(n) for n in 'abcdefgh'}]",
    "a list that grows from episode to episode": "KEPT.append(1) or KEPT",
    "a dict that it hands out and changes": "KEPT_DICT.setdefault('first', seed)",
}
MODULES = """
import datetime
import random
import secrets
import time
import uuid

KEPT, KEPT_DICT = [], {}


class Item:
    def __init__(self, name):
        self.name = name
"""
SEEDLESS = ("self.rng.randrange(100)", "random.Random(7).randrange(100)")


async def test_what_may_differ_is_rejected_or_the_same_to_the_byte_in_both_zygotes(dial, make_spec):
    base = dial.replace("TextEnv\n", f"TextEnv\n{MODULES}", 1)
    sources = {
        what: base.replace('"Open the lock: say', f'f"Lock {{{shown}}}: say').replace(
            '"Say a number."', f'f"Say a number, not {{{shown.replace("seed", "self.turns")}}}."'
        )
        for what, shown in SHOWN.items()
    }
    sources["nothing of its seed"] = base.replace(*SEEDLESS)
    async with open_sandbox() as sandbox:
        certificates = await certify_many([make_spec(source) for source in sources.values()], sandbox)
        verdicts = {}
        for (what, source), certificate in zip(sources.items(), certificates, strict=True):
            assert certificate.verdict in (Verdict.CERTIFIED, Verdict.REJECTED), (what, certificate.reason)
            verdicts[what] = certificate.reason.gate if certificate.reason else None
            if certificate.admitted:
                first, second = [await played(sandbox, make_spec(source), zygote) for zygote in (0, 1)]
                assert first == second, what
    rejected = {what for what, gate in verdicts.items() if gate is Gate.DETERMINISM}
    assert rejected >= {
        "nothing of its seed",
        "an address",
        "the text of an object",
        "a hash of text",
        "the order of a set",
        "the order of a set of objects",
        "a list that grows from episode to episode",
        "a dict that it hands out and changes",
    }
    assert {what for what, gate in verdicts.items() if gate is None} >= {
        "the time",
        "an identifier",
        "a secret",
        "a date",
    }


async def played(sandbox, spec, zygote):
    """All that an agent reads and is paid in three instances, as bytes."""
    seen = []
    async with await sandbox.open(spec, zygote=zygote) as env:
        for seed in (5, 6, 7):
            seen.append((await env.reset(seed)).text)
            for action in ("no", "50", "no", "7", *map(str, range(90, 100))):
                result = await env.step(ToolCall(name="act", arguments={"action": action}))
                seen.append([result.observation.text, result.reward, result.terminated, result.truncated])
    return json.dumps(seen).encode()


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
