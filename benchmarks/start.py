"""How long the start takes: `import sudare` and `sudare --help`, beyond Python's own start."""

import statistics
import subprocess
import sys
import time

ROUNDS = 15


def seconds(*command: str) -> float:
    """Median of some runs; the first, cold one is left out."""
    spans = []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans[1:])


def run() -> list[dict]:
    bare = seconds(sys.executable, "-c", "pass")
    imported = seconds(sys.executable, "-c", "import sudare")
    helped = seconds(sys.executable, "-m", "sudare", "--help")
    return [
        {"what": "python itself", "ms": 1000 * bare},
        {"what": "import sudare, beyond python", "ms": 1000 * (imported - bare)},
        {"what": "sudare --help, whole", "ms": 1000 * helped},
    ]


def main(argv: list[str]) -> None:
    for row in run():
        print(f"{row['what']:32} {row['ms']:7.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
