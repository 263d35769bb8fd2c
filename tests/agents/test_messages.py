"""Conversations only grow."""

from spade_agents.messages import Conversation, Message


def test_what_is_not_rendered_yet_stands_after_the_last_assistant_message():
    user, said, result = (
        Message(role="user", content="a"),
        Message(role="assistant", content="b"),
        Message(role="tool", content="c"),
    )
    start = Conversation(messages=(user,))
    assert start.unrendered() == (user,)
    later = start.then(said, tokens=(1, 2)).then(result)
    assert later.unrendered() == (result,)
    assert later.tokens == (1, 2)
