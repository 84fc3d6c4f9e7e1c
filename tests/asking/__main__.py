"""Ask many random statements: `python -m tests.asking 10000 [SEED]`. Prints how many agree, and every wrong one."""

from __future__ import annotations

import resource
import sys
from collections import Counter

from tests.asking.compare import compare, open_records
from tests.asking.exact import make_records
from tests.asking.statements import Writer

EACH = 500  # statements to one table


def main(count: int, seed: int) -> int:
    verdicts: Counter[str] = Counter()
    for start in range(0, count, EACH):
        table, records = make_records(seed + start, empty=0.85)
        connection, writer = open_records(records), Writer(seed + start)
        for _ in range(min(EACH, count - start)):
            statement = writer.statement()
            verdict = compare(statement, table, connection)
            verdicts[verdict.split(":")[0]] += 1
            if verdict.startswith("wrong"):
                print(statement, "\n   ", verdict)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(dict(verdicts), f"{used.ru_utime + used.ru_stime:.0f} CPU s")
    return int(verdicts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 1))
