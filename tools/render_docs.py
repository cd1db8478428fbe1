"""Write the pages that are rendered from the code; --check changes nothing and exits 1 if one is stale."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hermesd.config import reference  # noqa: E402 - the checkout's own package, installed or not


def main(arguments: list[str]) -> int:
    stale = 0
    for name, text in {"docs/configuration.md": reference.render()}.items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" in arguments:
            print(f"{name} is stale: run tools/render_docs.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
