"""What `hermesd init` writes: a configuration in which every line is true.

A line that begins with `#` and a letter without a blank (`#server:`) is a setting at its default or an
example; take the `#` away and it holds. A test loads the file as it is and with every such line in force.
"""

from __future__ import annotations

import base64
import os

from hermesd.cli.plugin_template import plugin_files
from hermesd.cli.scaffold import NewFile

EXAMPLE_PLUGIN = "hello"

_CONFIG = """\
# hermesd.yaml: what the daemon serves, and how.
#
# After a change: `hermesd check`, then `hermesd ctl reload`. A file with a fault changes nothing.
# Lines such as `#server:` are defaults and examples: take the `#` away. Relative paths are relative to this
# file. ${NAME}, ${NAME:-default} and ${file:PATH} are expanded in values; a missing one is an error.

# More files, merged in name order. A name that two files define is an error.
#include: ["conf.d/*.yaml"]

#server:
  # Operators talk to this socket (mode 0600; 0660 with socket_group). Default: in the runtime folder.
#  listen: ["unix:/run/hermesd/hermesd.sock"]
  # Agents come here, with the token that `hermesd ctl agents add NAME` prints. Other hosts need tls.
#  agents_listen: ["unix:/run/hermesd/agents.sock", "127.0.0.1:7443"]
#  tls: {cert: server.pem, key: server.key}
  # /healthz, /readyz and /metrics. Default: off.
#  http: "127.0.0.1:7480"
  # How long calls in flight may go on when the daemon stops or a plugin is replaced.
#  drain_timeout_s: 30
#  limits: {message_mb: 16, max_concurrent_streams: 256, keepalive_min_s: 10}

# Trust, kept contents, records of calls and logs. Default: in the state folder of the system or of the user.
#data_dir: /var/lib/hermesd

plugins:
  # Folders whose plugins are loaded: a folder with plugin.yaml, or a single .py file. A new one waits for
  # `hermesd ctl plugins trust NAME`; the example in it does too.
  dirs: ["plugins"]
  # Installed packages (by distribution name) whose entry points may run.
#  entry_points: ["hermesd-example-tools"]
  # Trust that is written down here wins over `hermesd ctl plugins trust`. `follow` trusts every change, for
  # development only; otherwise give the digest that `hermesd ctl plugins show` prints.
#  trusted:
#    hello: {follow: true, isolation: process}
  # What a plugin reads as ctx.settings.
#  settings:
#    hello: {ending: "!"}
#    files: {roots: ["/srv/data"]}
  # How many calls of one plugin run at once, and how many may begin.
#  limits:
#    hello: {max_concurrency: 8, rate: {calls: 100, per_s: 60}}

# Values for trusted plugins whose plugin.yaml asks for the name: ctx.secret("EXAMPLE_TOKEN"). Better
# ${file:/etc/hermesd/secret/example} than a variable.
#secrets: {EXAMPLE_TOKEN: "${EXAMPLE_TOKEN:-none}"}

# Who may call. `hermesd ctl agents add NAME` makes agents without this; one that is written down here wins.
# * crosses dots; deny wins; without allow there is no tool. ceiling is the worst side effect that it may
# cause: none, read, write or destructive. self_confirm: it may confirm its own calls, destructive ones too.
#agents:
#  reporter:
#    token_sha256: "0000000000000000000000000000000000000000000000000000000000000000"
#    tools: {allow: ["text.*", "time.*"], deny: ["*.delete_*"]}
#    ceiling: read
#    roles: [agent]
#    self_confirm: false
#    max_concurrency: 64
#    rate: {calls: 600, per_s: 60}
#    expires: 2099-12-31

# What holds for a tool that says nothing itself.
#defaults:
#  timeouts_ms: {python: 3000, batch: 15000}
  # The ceiling for what progress may extend, and for detached calls.
#  max_timeout_ms: 300000
  # Calls at once, of one tool, one plugin and one agent, and how long a call waits for its turn.
#  max_concurrency: 16
#  plugin_concurrency: 64
#  agent_concurrency: 64
#  queue_ms: 1000
#  description_chars: {warn: 500, max: 2000}
  # Tools that say `retryable` are tried again when they could not be reached, and never twice for a write.
#  retry: {max_attempts: 3, backoff_ms: 300, multiplier: 2.0, jitter: 0.2, attempt_timeout_ms: 0}
  # What could not be reached several times is not called for a while.
#  circuit_breaker: {consecutive_failures: 5, failure_ratio: 0.5, window: 20, open_ms: 30000}
  # A longer result is cut for the model; the whole can be read for a day.
#  result: {max_tokens: 2000, head_tokens: 500, tail_tokens: 500, keep_s: 86400, keep_mb: 256}
  # How long a call that needs a confirmation waits for it.
#  confirmation_ttl_s: 600
  # How long an idempotency key brings the same answer.
#  idempotency_window_s: 86400

#telemetry:
#  log_dir: logs
#  metrics_open: loopback
  # A record of every call, with redacted arguments and results, for `hermesd ctl calls`.
#  records: {keep_days: 30, max_mb: 512}
  # The same as JSON lines in log_dir, without arguments and results unless content says so.
  # redact: keys whose values are left out of both, beside passwords, tokens and the like.
#  call_log: {max_mb: 100, keep: 10, content: false, redact: ["*_iban"]}
"""

KEY_FILE = "store.key"


def starter_files() -> dict[str, NewFile]:
    """The files of a fresh configuration folder. The key is new each time: 32 random bytes in base64."""
    files = {
        "hermesd.yaml": NewFile(_CONFIG),
        KEY_FILE: NewFile(base64.b64encode(os.urandom(32)).decode("ascii") + "\n", mode=0o600),
    }
    for relative, file in plugin_files(EXAMPLE_PLUGIN).items():
        files[f"plugins/{EXAMPLE_PLUGIN}/{relative}"] = file
    return files
