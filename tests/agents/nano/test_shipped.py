"""The shipped model: small, described, and apart from what it is evaluated on."""

from __future__ import annotations

import json

import pytest

from spade_agents.designer.corpus import builtin_corpus
from spade_agents.designer.prompts import render_prompt
from spade_agents.designer.requests import DesignRequest
from spade_agents.messages import Conversation
from spade_agents.nano.heldout import heldout_specs
from spade_agents.nano.measure import MARK_BYTES, read_fingerprints
from spade_agents.policy import Sampling, open_policy
from spade_agents.policy.open import NANO_FOLDER
from spade_environments import Skill
from spade_environments.certificate.novelty import fingerprint


def test_it_takes_less_than_fifteen_megabytes():
    assert sum(path.stat().st_size for path in NANO_FOLDER.iterdir()) < 15 * 2**20


def test_its_card_tells_what_was_measured():
    about = json.loads((NANO_FOLDER / "spade.json").read_text(encoding="utf-8"))
    assert about["style"] == "compact"
    assert about["figures"]["plays"] >= 400
    assert about["figures"]["designs"]["certified"] >= 32


@pytest.mark.parametrize("part", ["known", "unseen"])
def test_no_held_out_structure_was_in_its_warm_up(part):
    seen = read_fingerprints(NANO_FOLDER)
    assert len(seen) > 10_000
    assert not any(bytes.fromhex(fingerprint(spec.source))[:MARK_BYTES] in seen for spec in heldout_specs(part, 100))


async def test_it_opens_by_name_and_writes_a_program():
    request = DesignRequest(skill=Skill.STATE_MODIFICATION, document=builtin_corpus(seed=0).at(0).text)
    asked = Conversation(messages=render_prompt(request, style="compact"))
    async with open_policy("nano") as policy:
        written = await policy.complete(asked, Sampling(temperature=0.7, max_tokens=600), seed=1)
    assert written.text.startswith("```python\nfrom spade_environments import Call, Goal, ToolEnv, ToolError, tool")
