"""Public to public: numbers that are already noisy are made into a valid table. No private value comes here."""

from sudare.postprocess.simplex import largest_remainder, nearest_point, nearest_table

__all__ = ["largest_remainder", "nearest_point", "nearest_table"]
