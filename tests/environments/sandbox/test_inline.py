import pytest

from spade_environments import EnvironmentFault, FaultKind, ToolCall
from spade_environments.sandbox import InlineSandboxSettings, open_sandbox
from spade_environments.sandbox.inline import UntrustedSourceError


async def transcript_of(sandbox, spec):
    async with await sandbox.open(spec) as env:
        seen = [await env.reset(4)]
        for action in await env.solution():
            seen.append(await env.step(action))
    return seen


async def test_inline_plays_a_catalogue_environment_as_a_child_does(desk):
    async with open_sandbox(InlineSandboxSettings()) as inline, open_sandbox() as local:
        assert await transcript_of(inline, desk) == await transcript_of(local, desk)
        assert inline.level == "none"


@pytest.mark.parametrize("provenance", [{}, {"kind": "design"}])
async def test_inline_refuses_whatever_is_not_the_catalogues(provenance, make_spec, make_text_env):
    async with open_sandbox(InlineSandboxSettings()) as sandbox:
        with pytest.raises(UntrustedSourceError, match="inline runs only 'catalogue'"):
            await sandbox.open(make_spec(make_text_env(), **provenance))


async def test_inline_names_faults_as_a_child_does(make_spec, make_text_env):
    body = make_text_env(step="return 'x', float('nan'), False, False, {}")
    spec = make_spec(body, kind="catalogue")
    async with open_sandbox(InlineSandboxSettings()) as sandbox, await sandbox.open(spec) as env:
        await env.reset(0)
        with pytest.raises(EnvironmentFault) as caught:
            await env.step(ToolCall(name="act", arguments={"action": "x"}))
    assert (caught.value.kind, caught.value.phase) == (FaultKind.PROTOCOL, "step")
