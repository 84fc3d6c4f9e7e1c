"""`python -m papers [KEY ...]`: reproduce the tables of the papers, ours beside theirs."""

import importlib
import sys

KEYS = ("terada2017", "oguri2016", "terada_tables", "hiraishi_location", "kato_view")


def main(keys: list[str]) -> int:
    failed = [key for key in keys or KEYS if not importlib.import_module(f"papers.{key}.reproduce").reproduce()]
    if failed:
        print(f"beyond tolerance: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
