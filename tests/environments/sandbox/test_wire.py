import json

import pytest

from spade_environments import wire

STEP = {
    "observation": "x", "role": "tool", "reward": 0.5, "terminated": False, "truncated": False, "info": {"a": 1},
    "unlocked": [],
}  # fmt: skip


def frame(nonce="n", **changes):
    return json.dumps({"nonce": nonce, "ok": {**STEP, **changes}}).encode()


def test_a_request_is_a_length_and_a_json_body():
    sent = wire.encode("n", "reset", {"seed": 3})
    assert sent[:4] == (len(sent) - 4).to_bytes(4, "big")
    assert json.loads(sent[4:]) == {"nonce": "n", "op": "reset", "payload": {"seed": 3}}


def test_a_step_reply_is_decoded_into_its_types():
    reply = wire.decode(frame(), "n", wire.StepReply)
    assert (reply.observation, reply.reward, wire.decode_info(reply.info)) == ("x", 0.5, {"a": 1})


def test_a_failure_is_decoded_as_such():
    found = wire.decode(b'{"nonce": "n", "error": {"kind": "exit", "text": "t"}}', "n", wire.StepReply)
    assert found == wire.Failed(kind="exit", text="t")


@pytest.mark.parametrize(
    "body",
    [
        frame(nonce="other"),
        frame(reward=True),
        frame(reward="0.5"),
        frame(reward=None),
        frame(reward=1.5),
        frame(reward=-1),
        frame(reward=float("nan")),
        frame(reward=float("inf")),
        frame().replace(b"0.5", b"1e999"),
        frame().replace(b"0.5", b"1" + b"0" * 400),
        frame(observation=3),
        frame(observation="\ud800"),
        frame(role="system"),
        frame(extra=1),
        frame(info=None),
        frame(terminated=0),
        b"",
        b"[]",
        b"{}",
        b'{"nonce": "n"}',
        b"[" * 100_000,
        frame()[:-1],
        frame() + b"x",
        b'{"nonce": "n", "error": {"kind": "host_fault", "text": ""}}',
        b'{"nonce": "n", "ok": null, "error": null}',
    ],
)
def test_whatever_is_not_exactly_a_reply_is_refused(body):
    with pytest.raises(wire.WireError):
        reply = wire.decode(body, "n", wire.StepReply)
        wire.decode_info(reply.info)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a|a)*$"}}},
        {"type": "object", "properties": {"a": {"$ref": "http://example.org/"}}},
        {"type": "object", "properties": {"a": {"enum": [{"b": 1}]}}},
        {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(2000)}},
    ],
)
def test_a_schema_that_no_signature_gives_is_refused(schema):
    tool = {"name": "f", "description": "", "parameters": schema}
    described = {
        "base": "tool", "class_name": "A", "tools": [tool], "max_turns": 5, "observability": "full", "hidden": [],
    }  # fmt: skip
    reply = wire.decode(json.dumps({"nonce": "n", "ok": described}).encode(), "n", wire.Described)
    with pytest.raises(wire.WireError):
        wire.checked_schema(bytes(reply.tools[0].parameters), "f")
