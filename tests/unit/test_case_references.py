"""Each fault that another daemon shipped, and that is ruled out here, has a test that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

#: One row a fault: where it was seen. The tests say in their docstrings which of them they rule out.
CASES = """
watchfiles#127
fsnotify#17 fsnotify#372
watchfiles#348
watchdog#654
watchdog#276
viper#284 configmap-reload#190 flagd#42 envoy#3928 cfg4k#65
traefik#7240
traefik#5589 traefik#10409
xremap#896
wintty#1138
prometheus-operator#2501
vision-3-bbs#320
seasonpackarr#246
Youtarr#237
vellum-assistant#124
watchdog#846 python-cachier#24
watchfiles#345
caddy#3540 caddy#3818 plugins#3934
caddy#5471 caddy#4895
caddy#2358 caddy#2642 caddy#7826
caddy#4184
caddy#5628 caddy#5645
cobalt#63
coredns#1456
coredns#1618 coredns#1722 coredns#3464 coredns#3492
coredns#6263
prometheus#3605
FRR#10453 FRR#10187
FRR#4124 keepalived#1660 otel-collector#11817
vault#30329
vault#17248
nats-server#1736
nats-server#719 nats-server#2282
haproxy#155 haproxy#1876 haproxy#327 haproxy#228
ingress-nginx#1088 nginx-gateway-fabric#5524
envoy#5174 envoy#14060
envoy#10046
circus#772 circus#553 circus#559
circus#823
supervisor#1411 supervisor#591
supervisor#969 supervisor#592
core#176593
pluggy#431 pluggy#347 pluggy#438 pluggy#473 pytest#732
cpython#75953 cpython#120932
canvas-plugins#1546 fiftyone#7315
mozaiks#659
core#113169 core#116188 core#179092
dify-plugin-daemon#698 dify-plugin-daemon#353
dify-plugin-daemon#553 dify-plugin-daemon#543
dify-plugin-daemon#336
dify-plugin-daemon#794 dify-plugin-daemon#789
go-plugin#10 go-plugin#114 dkron#247 spire#93
python-sdk#2773 pydantic-ai#8548
patroni#3598 ergo#2454 sd-notify#17 trapperkeeper#110
systemd#37515
systemd#19300
systemd#35227 systemd#25237 systemd#24291
systemd#25961 systemd#27291 systemd#24516
httpd#728 OmniRoute#10661
gunicorn#476 gunicorn#2856 gunicorn#3285
grpc#37239
grpc#16920 grpc#16005 rayfed#124
grpc#22624 grpc#17986
uvicorn#2943 uvicorn#1160 uvicorn#1069
"""

#: The same of the closest peer, an agent with tools of its own (`number` is hermes-agent#number).
AGENT_CASES = """
60050 64178 19889
64229
52417 52264
76821 10048
93923
84689 61550
79568 4057
5304 21658
33924 53667
56271
73760
20350 basic-memory#1339 hermes-otel#134
64228 35917
88821 106440
27984
89293 100896 101064 90950
18438 58817
41289 60794 40695
44615 10107
9596
"""

#: What this build has nothing of yet, by what it waits for. A row that a test names belongs above.
LATER = {
    "choosing the tools that a model is shown": "67273 66473 69097",
    "servers that speak MCP": """
        57129 38488 59568 19559 94335 95395 96019 97245 103746 11202 57228 60385 81880 72070 37768 72839 63423
        72032 87112 30563 56673 74915 57361 78169 16856 29184
    """,
    "containers for what nobody trusts": "84969 101385 100444 96268 92571 8028 30101",
    "sessions, whose store then has leases and snapshots": "75316 99692 98722 112482 34351 38727",
    "memories": """
        52900 34352 17989 2702 27183 16831 5320 101459 42639 78307 90035 103101 35877 98587 36858
    """,
    "other daemons as peers": "514 68851",
}

_REFERENCE = re.compile(r"([\w.-]+)#(\d+)((?:,\s+#\d+)*)")


def references(text: str) -> set[str]:
    """`owner/name#1, #2` as `name#1` and `name#2`, lower case."""
    found = set()
    for name, number, more in _REFERENCE.findall(text):
        found.update(f"{name}#{each}".lower() for each in (number, *re.findall(r"\d+", more)))
    return found


def named() -> set[str]:
    """Every reference in the docstring of a test, or of a module of tests."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path == Path(__file__):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in (tree, *ast.walk(tree)):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
                found |= references(ast.get_docstring(node) or "")
    return found


@pytest.fixture(scope="module")
def tested() -> set[str]:
    return named()


@pytest.mark.parametrize("case", CASES.split())
def test_every_known_fault_of_other_daemons_has_a_test_that_names_it(case: str, tested: set[str]) -> None:
    assert case.lower() in tested


@pytest.mark.parametrize("case", AGENT_CASES.split())
def test_every_known_fault_of_the_closest_peer_that_can_be_had_here_has_a_test_that_names_it(
    case: str, tested: set[str]
) -> None:
    assert _of_the_peer(case) in tested


@pytest.mark.parametrize("feature", LATER)
def test_a_fault_waits_for_its_feature_only_while_no_test_names_it(feature: str, tested: set[str]) -> None:
    waiting = {_of_the_peer(each) for each in LATER[feature].split()}
    assert not waiting & tested
    assert not waiting & {_of_the_peer(each) for each in AGENT_CASES.split()}


def _of_the_peer(case: str) -> str:
    return case if "#" in case else f"hermes-agent#{case}"


def test_a_reference_is_read_however_it_is_written() -> None:
    text = "owner/name#1, #22: this.\nother#3; Third-one#4,\n    #5"
    assert references(text) == {"name#1", "name#22", "other#3", "third-one#4", "third-one#5"}
    assert references("no # reference #12") == set()
