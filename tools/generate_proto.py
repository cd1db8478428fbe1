"""Generate the Python code of the API from `proto/` into `hermesd/api/v1/`.

`python tools/generate_proto.py [--out DIR]` writes the files; a test generates into a scratch folder and
compares, so that committed code is never stale. Needs grpcio-tools.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"


def sources() -> list[Path]:
    """The .proto files of the API, in name order."""
    return sorted((PROTO / "hermesd").rglob("*.proto"))


def generate(out: Path) -> list[Path]:
    """Generate below `out` and return the files written. Raises RuntimeError when protoc refuses."""
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["protoc", f"-I{PROTO}", f"-I{files('grpc_tools') / '_proto'}"]
    arguments += [f"--{kind}={out}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
    status = protoc.main([*arguments, *(str(each) for each in sources())])
    if status:
        raise RuntimeError(f"protoc ended with status {status}")
    return sorted(each for each in (out / "hermesd" / "api" / "v1").iterdir() if "_pb2" in each.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT, help="root folder of the generated packages")
    for path in generate(parser.parse_args().out):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
