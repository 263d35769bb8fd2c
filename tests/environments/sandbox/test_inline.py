from dataclasses import replace

import pytest

from spade_environments import EnvironmentFault, FaultKind, ToolCall
from spade_environments.registry import find
from spade_environments.sandbox import InlineSandboxSettings, open_sandbox
from spade_environments.sandbox.inline import UntrustedSourceError
from spade_environments.variants import variant


async def transcript_of(sandbox, spec):
    async with await sandbox.open(spec) as env:
        seen = [await env.reset(4)]
        for action in await env.solution():
            seen.append(await env.step(action))
    return seen


async def test_inline_plays_a_trusted_environment_as_a_child_does(desk):
    trusted = frozenset({desk.id})
    async with open_sandbox(InlineSandboxSettings(), trusted=trusted) as inline, open_sandbox() as local:
        assert await transcript_of(inline, desk) == await transcript_of(local, desk)
        assert inline.level == "none"


async def test_inline_opens_the_catalogue_and_its_variants_whatever_they_say_of_themselves():
    island = replace(variant(find("island_liars"), N_PEOPLE=5), provenance={})
    async with open_sandbox(InlineSandboxSettings()) as sandbox, await sandbox.open(island) as env:
        assert (await env.reset(0)).text


@pytest.mark.parametrize("provenance", [{}, {"kind": "design"}, {"kind": "catalogue"}])
async def test_inline_refuses_whatever_is_not_the_catalogues_whatever_it_claims(provenance, make_spec, make_text_env):
    async with open_sandbox(InlineSandboxSettings(), trusted=frozenset({"other"})) as sandbox:
        with pytest.raises(UntrustedSourceError, match="'probe' is not the catalogue's"):
            await sandbox.open(make_spec(make_text_env(), **provenance))


async def test_inline_names_faults_as_a_child_does(make_spec, make_text_env):
    body = make_text_env(step="return 'x', float('nan'), False, False, {}")
    spec = make_spec(body)
    async with (
        open_sandbox(InlineSandboxSettings(), trusted=frozenset({spec.id})) as sandbox,
        await sandbox.open(spec) as env,
    ):
        await env.reset(0)
        with pytest.raises(EnvironmentFault) as caught:
            await env.step(ToolCall(name="act", arguments={"action": "x"}))
    assert (caught.value.kind, caught.value.phase) == (FaultKind.PROTOCOL, "step")
