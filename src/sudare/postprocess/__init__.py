"""Public to public: numbers that are already noisy are made into a valid table. No private value comes here."""

from sudare.postprocess.simplex import find_nearest_point, find_nearest_table, round_by_remainder

__all__ = ["find_nearest_point", "find_nearest_table", "round_by_remainder"]
