"""The words of the prompts: snapshots, and that everything shown in them is certified."""

from __future__ import annotations

import pytest

from spade_agents.designer.prompts import example_of, prompt_version, render_prompt, skeleton_of
from spade_agents.designer.requests import (
    DOMAINS,
    DesignRequest,
    HintRequest,
    MemorySeed,
    OutputForm,
    RepairRequest,
    TextForm,
    ToolVariant,
)
from spade_environments import GAME_SKILLS, TOOL_SKILLS, EnvironmentSpec, Skill, ToolCall
from spade_environments.certificate import Verdict, certify_many
from spade_environments.sandbox import open_sandbox

SEED = MemorySeed(summary="Shelf: get: state", source="class Shelf: pass\n", win_rate=0.5, regret=0.1)


def user_of(request: DesignRequest) -> str:
    """What the full style asks for, the example's program left out."""
    text = render_prompt(request, style="full")[1].content
    return text.replace(example_of(request.skill).source, "EXAMPLE\n")


def test_a_tool_environment_is_asked_for_in_these_words():
    request = DesignRequest(
        skill=Skill.DATA_RETRIEVAL,
        domain="telecom",
        variant=ToolVariant.MISSING_VALUE,
        seeds=(SEED,),
        avoid=(MemorySeed(summary="", source="class Easy: pass\n", win_rate=1.0, regret=None),),
        document="a shelf",
        target=0.65,
    )
    assert user_of(request) == (
        "Write one environment that trains data retrieval. It plays in the domain telecom (lines, plans, usage, "
        "outages, devices). One request leaves out a value that its tool needs (kind asked); the agent must ask and "
        "touch nothing, and the next request supplies it. Difficulty aimed at: 0.65, where 0 is solved at once, 0.5 "
        "is solved by the present agent in about half of its plays, and 1 is out of its reach.\n"
        "\n"
        "An environment of this kind, to show the form (write another one):\n"
        "```python\n"
        "EXAMPLE\n"
        "```\n"
        "\n"
        "An earlier environment; the agent solved 50% of its plays and a hint was worth +0.10. Build on what made it "
        "instructive:\n"
        "```python\n"
        "class Shelf: pass\n"
        "```\n"
        "\n"
        "An earlier environment, the agent solved 100% of its plays. Write nothing of that kind:\n"
        "```python\n"
        "class Easy: pass\n"
        "```\n"
        "\n"
        "Ground it in this text; take its objects, names and relations, and leave its formatting:\n"
        "<document>\n"
        "a shelf\n"
        "</document>\n"
        "\n"
        "Now write the new environment. Hand in exactly one ```python block with the whole program, and after it one "
        '```json block such as {"domain": "harbour", "difficulty": 0.5}.'
    )


def test_a_text_environment_is_asked_for_in_these_words():
    request = DesignRequest(skill=Skill.MATHEMATICAL_REASONING, form=TextForm.SINGLE_TURN, output=OutputForm.CALL)
    assert user_of(request) == (
        "Write one environment that trains mathematical reasoning. It is a single question: max_turns = 1, everything "
        "needed stands in the first observation, and one action answers it. Difficulty aimed at: 0.50, where 0 is "
        "solved at once, 0.5 is solved by the present agent in about half of its plays, and 1 is out of its reach.\n"
        "\n"
        "An environment of this kind, to show the form (write another one):\n"
        "```python\n"
        "EXAMPLE\n"
        "```\n"
        "\n"
        "Now write the new environment. Hand it in by one call of submit_environment, the whole program as its "
        "source."
    )


def test_a_form_that_the_example_does_not_have_comes_with_a_skeleton():
    asked = DesignRequest(skill=Skill.MATHEMATICAL_REASONING, form=TextForm.MULTI_TURN)
    assert skeleton_of(TextForm.MULTI_TURN) in user_of(asked)
    assert skeleton_of(TextForm.SINGLE_TURN) in user_of(
        DesignRequest(skill=Skill.SPATIAL_REASONING, form=TextForm.SINGLE_TURN)
    )
    assert "something simpler" not in user_of(DesignRequest(skill=Skill.SPATIAL_REASONING, form=TextForm.MULTI_TURN))


def test_the_contract_tells_what_the_certificate_asks_for():
    for skill in Skill:
        system = render_prompt(DesignRequest(skill=skill), style="full")[0].content
        for word in ("self.rng", "solution()", "hidden", "isdigit", "²", "5000", "64 KB", "set"):
            assert word in system, (skill, word)
        assert ("Derive from ToolEnv" in system) == (skill in TOOL_SKILLS)
        assert len(system) < 4500, "short enough for models of 8000 tokens, example and document included"


def test_the_hint_and_the_repair_are_asked_for_in_these_words():
    system, user = render_prompt(HintRequest(source="x = 1\n"), style="full")
    assert system.content.startswith("You see the source of an environment. Write the hint that helps an agent most:")
    assert "never a concrete argument value" in system.content
    assert user.content == "```python\nx = 1\n```"
    for style in ("full", "compact"):
        written, told = render_prompt(RepairRequest(written="x", gate="gold", repair="{mend} it"), style=style)
        assert (written.role, written.content) == ("assistant", "x")
        assert (told.role, told.content) == (
            "user",
            "That was not accepted (gold): {mend} it\nWrite the whole program again, mended.",
        )


def test_a_repair_of_a_call_answers_the_call():
    call = ToolCall(name="submit_environment", arguments={"source": "x"}, id="7")
    written, told = render_prompt(RepairRequest(written="", gate="gold", repair="mend", calls=(call,)), style="full")
    assert written.calls == (call,)
    assert (told.role, told.call_id) == ("tool", "7")


def test_the_compact_style_leaves_out_what_its_models_were_not_trained_on():
    plain = DesignRequest(skill=Skill.DATA_RETRIEVAL, document="a shelf", seeds=(SEED,))
    more = DesignRequest(
        skill=Skill.DATA_RETRIEVAL,
        document="a shelf",
        seeds=(SEED,),
        avoid=(SEED,),
        domain="telecom",
        variant=ToolVariant.EXECUTE,
        target=0.9,
        output=OutputForm.CALL,
    )
    assert render_prompt(plain, style="compact") == render_prompt(more, style="compact")
    assert [m.content for m in render_prompt(plain, style="compact")] == [
        "design",
        "skill: data retrieval\nmemory: Shelf: get: state\ndocument: a shelf",
    ]


def test_every_domain_variant_and_skill_has_its_words():
    assert len(DOMAINS) == 10
    for skill in TOOL_SKILLS:
        for variant in ToolVariant:
            texts = {user_of(DesignRequest(skill=skill, domain=name, variant=variant)) for name in DOMAINS}
            assert len(texts) == 10
    for skill in GAME_SKILLS:
        assert len({user_of(DesignRequest(skill=skill, form=form)) for form in (*TextForm, None)}) == 3


def test_the_version_names_the_style_and_follows_its_words(monkeypatch):
    before = prompt_version("full")
    assert before.startswith("full-")
    assert before != prompt_version("compact")
    monkeypatch.setattr("spade_agents.designer.prompt_texts.CONTRACT", "other words")
    prompt_version.cache_clear()
    assert prompt_version("full") != before
    prompt_version.cache_clear()


@pytest.mark.parametrize("form", TextForm)
def test_a_skeleton_is_of_its_form(form):
    assert ("max_turns = 1\n" in skeleton_of(form)) == (form is TextForm.SINGLE_TURN)


async def test_every_example_and_skeleton_in_a_prompt_is_certified():
    specs = [example_of(skill) for skill in Skill]
    specs += [EnvironmentSpec(name=form.value, source=skeleton_of(form), skill=Skill.OPTIMIZATION) for form in TextForm]
    async with open_sandbox() as sandbox:
        certificates = await certify_many(specs, sandbox)
    for spec, certificate in zip(specs, certificates, strict=True):
        assert certificate.verdict is Verdict.CERTIFIED, (spec.name, certificate.reason)
