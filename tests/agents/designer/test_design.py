"""Slots, attempts, retries, admission and hints."""

import asyncio
import re
from dataclasses import replace

import pytest

from spade_agents.designer.attempts import AttemptVerdict
from spade_agents.designer.design import Designer, DesignerSettings
from spade_agents.designer.prompts import prompt_version, render_prompt
from spade_agents.designer.requests import DesignRequest, HintRequest, MemorySeed
from spade_agents.errors import ContextExhaustedError, InfrastructureError
from spade_agents.policy.protocol import PolicyInfo
from spade_agents.trajectory import Completion
from spade_environments import Skill, ToolCall
from spade_environments.certificate import Certificate, CertificateSettings, Gate, GateResult, GateStatus, Verdict

REQUEST = DesignRequest(skill=Skill.DATA_RETRIEVAL, document="a shelf of books", document_id="d1", domain="files")


class Script:
    """A policy that answers design prompts in order and hint prompts from another list."""

    info = PolicyInfo(name="script", context_length=1000, has_tokens=False)

    def __init__(self, designs, hints=("look first",)):
        self.designs, self.hints, self.seen = list(designs), list(hints), []

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        self.seen.append(conversation.messages)
        if conversation.messages[0].content == "hint":
            return Completion(text=self.hints.pop(0) if len(self.hints) > 1 else self.hints[0])
        return Completion(text=self.designs.pop(0))


class Words:
    """A certifier that reads the wanted verdict in the source."""

    async def certify(self, spec):
        word = re.search(r"certified|rejected|undecided", spec.source)[0]
        status = {"certified": GateStatus.PASSED, "rejected": GateStatus.FAILED, "undecided": GateStatus.UNDECIDED}[
            word
        ]
        gate = GateResult(gate=Gate.GOLD, status=status, repair="mend the gold" if word == "rejected" else "")
        return self._certificate(spec, Verdict(word), gate)

    async def certify_hint(self, spec, hint):
        good = "answer" not in hint
        gate = GateResult(gate=Gate.HINT, status=GateStatus.PASSED if good else GateStatus.FAILED)
        return self._certificate(spec, Verdict.CERTIFIED if good else Verdict.REJECTED, gate)

    def _certificate(self, spec, verdict, gate):
        return Certificate(
            spec_id=spec.id, name=spec.name, verdict=verdict, gates=(gate,), settings=CertificateSettings()
        )


def block(word):
    return f"```python\nclass BookShelf: '{word}'\n```"


async def designed(policy, *, admit=None, slots=1, **settings):
    more = {"admit": admit} if admit else {}
    designer = Designer(
        policy=policy, certifier=Words(), settings=DesignerSettings(style="compact", **settings), **more
    )
    return await designer.design_set([REQUEST] * slots, seed=1)


async def test_a_rejected_attempt_is_kept_and_tried_again_with_what_was_wrong():
    policy = Script([block("rejected"), "no block", block("certified")])
    (outcome,) = await designed(policy)
    assert [(a.verdict.value, a.gate) for a in outcome.attempts] == [
        ("rejected", "gold"),
        ("rejected", "no_block"),
        ("certified", ""),
    ]
    assert (outcome.spec.name, outcome.spec.hint, outcome.spec.domain) == ("book_shelf", "look first", "files")
    assert outcome.spec.provenance == {
        "kind": "designed",
        "document": "d1",
        "prompt": prompt_version("compact"),
        "designer": "script",
        "attempts": ["rejected: gold", "rejected: no_block", "certified"],
    }
    assert [attempt.repaired for attempt in outcome.attempts] == [False, True, True]
    assert "mend the gold" in policy.seen[1][-1].content


async def test_without_repair_each_attempt_sees_the_same_prompt():
    policy = Script([block("rejected"), block("certified")])
    await designed(policy, repair=False)
    assert policy.seen[0] == policy.seen[1]


@pytest.mark.parametrize(("style", "gate"), [("full", ""), ("compact", "truncated")])
async def test_a_program_whose_explanation_was_cut_counts_unless_the_model_was_trained_to_end_with_it(style, gate):
    class Talks(Script):
        async def complete(self, conversation, sampling, *, seed, deadline=None):
            done = await super().complete(conversation, sampling, seed=seed)
            is_hint = not done.text.startswith("```")
            return done if is_hint else replace(done, text=f"{done.text} It trains", finish="length")

    settings = DesignerSettings(style=style, attempts=1)
    designer = Designer(policy=Talks([block("certified"), "look first"]), certifier=Words(), settings=settings)
    (outcome,) = await designer.design_set([REQUEST], seed=1)
    assert (outcome.attempts[0].gate, outcome.spec is not None) == (gate, style == "full")


async def test_attempts_end_and_the_slot_stays_empty():
    (outcome,) = await designed(Script([block("rejected")] * 2), attempts=2)
    assert (outcome.spec, len(outcome.attempts)) == (None, 2)


async def test_a_fault_of_ours_is_undecided_and_not_rejected():
    (outcome,) = await designed(Script([block("undecided")]), attempts=1)
    assert outcome.attempts[0].verdict is AttemptVerdict.UNDECIDED


async def test_what_the_admission_rule_refuses_is_rejected_in_slot_order():
    seen = set()

    def admit(spec):
        known = spec.id in seen
        seen.add(spec.id)
        return "already there" if known else None

    outcomes = await designed(Script([block("certified")] * 2), admit=admit, slots=2, attempts=1)
    assert [o.attempts[0].verdict.value for o in outcomes] == ["certified", "rejected"]
    assert (outcomes[1].attempts[0].gate, outcomes[1].attempts[0].repair) == ("novelty", "already there")


async def test_an_environment_without_a_fit_hint_is_not_admitted_and_is_no_rejection():
    policy = Script([block("certified")], hints=["the answer is 3"])
    (outcome,) = await designed(policy, attempts=1)
    assert (outcome.spec, outcome.attempts[0].verdict) == (None, AttemptVerdict.NO_HINT)
    assert len(policy.seen) == 1 + 3, "three hints are tried"


def test_the_compact_prompt_holds_skill_memory_and_document():
    seed = MemorySeed(summary="Shelf: get: state", source="class Shelf: pass\n", win_rate=0.5, regret=0.1)
    request = DesignRequest(skill=Skill.DATA_RETRIEVAL, document="a shelf", seeds=(seed,))
    system, user = render_prompt(request, style="compact")
    assert system.content == "design"
    assert user.content == "skill: data retrieval\nmemory: Shelf: get: state\ndocument: a shelf"
    assert [m.content for m in render_prompt(HintRequest(source="x = 1\n"), style="compact")] == ["hint", "x = 1\n"]


def test_of_an_unknown_regret_the_full_prompt_says_nothing():
    known = MemorySeed(summary="", source="class Shelf: pass\n", win_rate=0.5, regret=0.1)
    told = [
        render_prompt(DesignRequest(skill=Skill.DATA_RETRIEVAL, seeds=(seed,)), style="full")[1].content
        for seed in (known, replace(known, regret=None))
    ]
    assert "solved 50% of its plays and a hint was worth +0.10. Build" in told[0]
    assert "solved 50% of its plays. Build" in told[1]


def test_the_full_prompt_shows_the_contract_an_example_of_the_skill_the_memory_and_the_document():
    seed = MemorySeed(summary="", source="class Shelf: pass\n", win_rate=0.5, regret=0.1)
    for skill in Skill:
        request = DesignRequest(skill=skill, document="a shelf", seeds=(seed,))
        system, user = (m.content for m in render_prompt(request, style="full"))
        assert "self.rng" in system
        assert user.count("```python\n") == 2
        assert "<document>\na shelf\n</document>" in user
        assert "50%" in user


class Cramped(Script):
    """A policy whose context ends at prompts that hold a word."""

    def __init__(self, designs, word):
        super().__init__(designs)
        self.word = word

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        if any(self.word in message.content for message in conversation.messages):
            raise ContextExhaustedError("too long")
        return await super().complete(conversation, sampling, seed=seed, deadline=deadline)


async def test_a_program_that_leaves_no_room_for_its_hint_is_not_admitted():
    (outcome,) = await designed(Cramped([block("certified")], "class BookShelf"), attempts=1)
    assert outcome.attempts[0].verdict is AttemptVerdict.NO_HINT


async def test_a_repair_that_does_not_fit_is_asked_for_as_if_it_were_the_first_try():
    policy = Cramped([block("rejected"), block("certified")], "Write the whole program again")
    (outcome,) = await designed(policy)
    assert outcome.spec is not None
    assert policy.seen[0] == policy.seen[1]


class Failing(Script):
    """A policy that fails, in one way or another, at its second design."""

    def __init__(self, designs, error):
        super().__init__(designs)
        self.error, self.started = error, 0

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        if conversation.messages[0].content == "design":
            self.started += 1
            if self.started == 2:
                raise self.error
            await asyncio.sleep(0)
        return await super().complete(conversation, sampling, seed=seed, deadline=deadline)


async def test_a_policy_that_fails_ends_the_set_unless_its_faults_are_borne():
    failing = Failing([block("certified")] * 2, InfrastructureError("down"))
    with pytest.raises(InfrastructureError, match="down"):
        await designed(failing, slots=2)
    policy = Failing([block("certified")] * 2, InfrastructureError("down"))
    designer = Designer(policy=policy, certifier=Words(), settings=DesignerSettings(style="compact"), bears_faults=True)
    outcomes = await designer.design_set([REQUEST] * 2, seed=1)
    ended = sorted(tuple(attempt.told for attempt in outcome.attempts) for outcome in outcomes)
    assert ended == [("certified",), ("undecided: infrastructure",)], "no more is asked for once the policy failed"


async def test_a_prompt_that_does_not_fit_is_undecided_and_not_tried_again():
    (outcome,) = await designed(Cramped([block("certified")], "skill:"))
    assert [attempt.told for attempt in outcome.attempts] == ["undecided: context"]


async def test_a_known_source_is_a_duplicate_and_costs_no_certificate():
    designer = Designer(
        policy=Script([block("certified"), block("rejected")]),
        certifier=Words(),
        settings=DesignerSettings(style="compact", attempts=2),
        known=lambda spec: "certified" in spec.source,
    )
    (outcome,) = await designer.design_set([REQUEST], seed=1)
    assert [attempt.told for attempt in outcome.attempts] == ["rejected: duplicate", "rejected: gold"]
    assert outcome.attempts[0].certificate is None


async def test_slots_are_reported_when_they_are_decided_and_under_their_numbers():
    told = []
    policy = Script([block("certified"), block("rejected"), block("certified")])
    designer = Designer(policy=policy, certifier=Words(), settings=DesignerSettings(style="compact", attempts=2))
    outcomes = await designer.design_set(
        [REQUEST] * 2, seed=1, numbers=[7, 3], report=lambda slot, outcome: told.append((slot, len(outcome.attempts)))
    )
    assert told == [(7, 1), (3, 2)]
    assert [len(outcome.attempts) for outcome in outcomes] == [1, 2]


async def test_what_a_fault_of_ours_left_undecided_is_asked_for_again_without_a_repair():
    policy = Script([block("undecided"), block("certified")])
    (outcome,) = await designed(policy)
    assert [attempt.repaired for attempt in outcome.attempts] == [False, False]
    assert policy.seen[0] == policy.seen[1]


async def test_the_manifest_gives_domain_and_difficulty_and_the_skill_stays_the_one_asked_for():
    manifest = '\n```json\n{"skill": "causal inference", "domain": "kilns", "difficulty": 0.75}\n```'
    (outcome,) = await designed(Script([block("certified") + manifest]))
    spec = outcome.spec
    assert (spec.skill, spec.domain, spec.difficulty) == (Skill.DATA_RETRIEVAL, "kilns", 0.75)
    assert spec.provenance["named_skill"] == "causal inference"


async def test_by_calls_the_tool_is_offered_and_a_repair_answers_the_call():
    class Calling(Script):
        async def complete(self, conversation, sampling, *, seed, deadline=None):
            self.tools = [*getattr(self, "tools", []), [tool.name for tool in conversation.tools]]
            found = await super().complete(conversation, sampling, seed=seed, deadline=deadline)
            if conversation.messages[0].content == "hint":
                return found
            call = ToolCall(name="submit_environment", arguments={"source": found.text, "domain": "x"}, id="0")
            return Completion(text="", calls=(call,), finish="calls")

    policy = Calling(["class A: 'rejected'", "class B: 'certified'"])
    (outcome,) = await designed(policy, output="call")
    assert outcome.spec.name == "b"
    assert policy.tools == [["submit_environment"], ["submit_environment"], []]
    assert [message.role for message in policy.seen[1]] == ["system", "user", "assistant", "tool"]
