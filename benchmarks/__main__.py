"""`python -m benchmarks [NAME ...]`: side by side with the peers, ratios in one run."""

import importlib
import sys

NAMES = (
    "start",
    "noise",
    "gaussian",
    "concentrated",
    "ledger",
    "ledger_server",
    "audit",
    "counting",
    "drafts",
    "spark",
    "table_baselines",
    "kanon",
    "kanon_rows",
    "kanon_values",
    "kanon_predict",
    "kanon_local",
    "kanon_population",
    "mondrian",
    "calibration",
    "microdata_scaling",
    "location",
    "view",
    "view_sql",
    "view_peers",
    "view_blocks",
    "location_reports",
    "choose",
    "desk_load",
)


def main(names: list[str]) -> int:
    for name in names or NAMES:
        print(f"== {name}")
        importlib.import_module(f"benchmarks.{name}").main([])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
