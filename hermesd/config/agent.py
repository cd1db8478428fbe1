"""Keys about agents: where they are served, who they are, what they may do."""

from __future__ import annotations

import re

from hermesd.config.key import Key
from hermesd.config.kind import (
    AgentsAddress,
    Choice,
    FilePath,
    Flag,
    ListOf,
    Matching,
    Moment,
    Number,
    Rate,
    Text,
)
from hermesd.model.name import agent_name_fault

ROLES = ListOf(Text("role"))
GLOBS = ListOf(Text("glob of tool names"))
TOKEN_SHA256 = Matching(re.compile(r"[0-9a-f]{64}\Z"), "SHA-256 in 64 lower-case hexadecimal digits")
CEILING = Choice(("none", "read", "write", "destructive"))


LISTENING = (
    Key(
        "server.agents_listen",
        ListOf(AgentsAddress()),
        "restart",
        "Where agents reach the daemon: nobody without a token or a certificate. "
        "A unix socket here is open to every user of the machine, and an address that other machines can "
        "reach needs `server.tls`.",
        (),
    ),
    Key(
        "server.tls",
        None,
        "restart",
        "Certificates of the TCP addresses of `server.agents_listen`; all of them then speak TLS.",
    ),
    Key(
        "server.tls.cert",
        FilePath(),
        "restart",
        "The server's certificate chain in PEM. A file that is replaced serves new connections at once.",
    ),
    Key("server.tls.key", FilePath(), "restart", "Its private key in PEM, readable by the daemon alone."),
    Key(
        "server.tls.client_ca",
        FilePath(),
        "restart",
        "Authorities of clients, in PEM. With it every client needs a certificate; "
        "its common name is the agent's name, unless a token says who calls.",
    ),
)

AGENTS = (
    Key("agents", None, "live", "Who may call, by name; `hermesd ctl agents add` makes others."),
    Key("agents.*", None, "live", "One agent.", name_fault=agent_name_fault),
    Key(
        "agents.*.token_sha256",
        TOKEN_SHA256,
        "live",
        "What its token hashes to: `printf %s TOKEN | sha256sum`. "
        "Without it only a certificate shows who it is.",
        "",
        secret=True,
    ),
    Key(
        "agents.*.roles",
        ROLES,
        "live",
        "Tools whose definition names roles are there for agents with one of them.",
        ("agent",),
    ),
    Key("agents.*.tools", None, "live", "Tools that exist for it."),
    Key(
        "agents.*.tools.allow",
        GLOBS,
        "live",
        "Globs of tool names; `*` crosses dots. Without any there is no tool.",
        (),
    ),
    Key("agents.*.tools.deny", GLOBS, "live", "Globs of tool names that do not exist for it; deny wins.", ()),
    Key(
        "agents.*.ceiling",
        CEILING,
        "live",
        "The worst `side_effects` that it may cause; tools above are seen and cannot be called.",
        "write",
    ),
    Key("agents.*.self_confirm", Flag(), "live", "Whether it may confirm its own calls.", False),
    Key(
        "agents.*.max_concurrency",
        Number(1, 10_000, whole=True),
        "live",
        "Its calls that run at once.",
        shown="`defaults.agent_concurrency`",
    ),
    Key(
        "agents.*.rate",
        Rate(),
        "live",
        "How many calls it may begin: `calls` at once after a rest, and `calls` every `per_s` seconds (1 "
        "when not said) in the long run.",
        shown="no limit",
    ),
    Key(
        "agents.*.expires",
        Moment(),
        "live",
        "From then on it is refused: a date, or a date with a time; without an offset in UTC.",
        shown="never",
    ),
)
