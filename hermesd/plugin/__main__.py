"""Start a runner: `python -I -B …/hermesd/plugin/__main__.py`, from an installed package or a checkout alike.

An isolated interpreter knows nothing of the folder that this file lies in; and the folder must not stay on
the path, or whatever lies beside it would be importable to plugins.
"""

import sys


def main() -> int:
    above = __file__.rpartition("/hermesd/plugin/")[0]
    known = above in sys.path
    if not known:
        sys.path.insert(0, above)
    # Imported here, all of it: afterwards the folder is gone from the path.
    from hermesd.plugin import runner  # noqa: PLC0415

    if not known:
        sys.path.remove(above)
    return runner.main()


if __name__ == "__main__":
    sys.exit(main())
