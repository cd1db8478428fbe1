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


def test_a_reference_is_read_however_it_is_written() -> None:
    text = "owner/name#1, #22: this.\nother#3; Third-one#4,\n    #5"
    assert references(text) == {"name#1", "name#22", "other#3", "third-one#4", "third-one#5"}
    assert references("no # reference #12") == set()
