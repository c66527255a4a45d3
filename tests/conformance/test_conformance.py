"""Every behaviour of every server asked: what the service's documentation says, or else the known difference."""

from __future__ import annotations

import pytest
from tests.conformance.behaviour import BEHAVIOURS, Behaviour
from tests.conformance.differences import DIFFERENCES, WITHOUT_CHILDREN
from tests.conformance.server import Decoder, Server
from tests.conformance.stream import Stream


def test_a_server_answers_as_documented_or_as_it_is_known_to(
    asked_of: Server, asked: Behaviour, stream: Stream, decoder: Decoder
) -> None:
    answer = asked.observe(stream)
    known = DIFFERENCES.get(asked_of.name, {})
    documented = WITHOUT_CHILDREN.get(asked.name, asked.answer) if decoder == "shardlake" else asked.answer
    assert answer == known.get(asked.name, documented)
    if asked.name in known:
        pytest.xfail(f"the service: {asked.documented}")


@pytest.mark.parametrize("server", DIFFERENCES)
def test_a_known_difference_is_one_from_a_behaviour_that_is_asked(server: str) -> None:
    known = DIFFERENCES[server]
    assert known.keys() <= BEHAVIOURS.keys()
    assert [name for name, answer in known.items() if answer == BEHAVIOURS[name].answer] == []
