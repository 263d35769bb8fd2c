"""A jailed process that is spoken with: lines both ways, further channels, and its end."""

from __future__ import annotations

import pytest

from spade_agents.errors import InfrastructureError
from spade_evals.grading.conversing import JailedScript

OPENING = """
import json, os, socket, sys
out, asked = open("main.out", "w"), open("main.in")
def tell(row, to=out):
    print(json.dumps(row), file=to, flush=True)
tell({"ready": True})
"""
ECHO = """
for line in asked:
    row = json.loads(line)
    if "channel" in row:
        tell({"long": "x" * 200_000}, open(row["channel"] + ".out", "w"))
    elif "end" in row:
        sys.exit("ended as asked")
    else:
        tell({"heard": len(row["said"])})
"""


def jailed(tmp_path, source):
    script = tmp_path / "script.py"
    script.write_text(source)
    return JailedScript(script=script)


async def test_lines_of_any_length_go_both_ways_and_the_process_starts_again_after_its_end(tmp_path):
    script = jailed(tmp_path, OPENING + ECHO)
    main = await script.main()
    assert await script.main() is main
    await main.send({"said": "y" * 300_000}, {"said": "z"})
    assert [await main.receive(), await main.receive()] == [{"heard": 300_000}, {"heard": 1}]
    name, channel = await script.channel()
    await channel.open()
    await main.send({"channel": name})
    assert await channel.receive() == {"long": "x" * 200_000}
    assert await channel.receive() is None
    channel.close()
    await main.send({"end": True})
    assert await main.receive() is None
    assert "ended as asked" in str(await script.fault())
    again = await script.main()
    await again.send({"said": "."})
    assert await again.receive() == {"heard": 1}
    await script.aclose()


async def test_it_has_no_network_and_no_files_of_ours(tmp_path):
    (tmp_path / "secret").write_text("ours")
    tried = f"""
for name, attempt in (("network", socket.socket), ("files", lambda: open({str(tmp_path / "secret")!r}))):
    try:
        attempt()
    except OSError as error:
        tell({{name: "refused"}})
"""
    script = jailed(tmp_path, OPENING + tried)
    main = await script.main()
    assert [await main.receive(), await main.receive()] == [{"network": "refused"}, {"files": "refused"}]
    await script.aclose()


async def test_one_that_does_not_start_says_why(tmp_path):
    script = jailed(tmp_path, "import no_such_module")
    with pytest.raises(InfrastructureError, match="No module named 'no_such_module'"):
        await script.main()
