"""Size of a TPC-C database (clause 1.2.1, table 4.3.3.1)."""

from __future__ import annotations

from dataclasses import dataclass

DISTRICTS_PER_WAREHOUSE = 10
"""Fixed by clause 1.2.1, and by the ten S_DIST_xx columns."""

MAX_LAST_NAMES = 1000
"""Last names that three of ten syllables give (clause 4.3.2.3)."""


@dataclass(frozen=True)
class Scale:
    """Cardinalities of a database.

    The defaults are the specification's; smaller ones are for tests only. `warehouses`: 1 or more.
    `items` (and stock rows a warehouse): 15 or more, so that an order can be all different.
    `customers_per_district` (and initial orders a district): 10 or more.
    """

    warehouses: int = 1
    items: int = 100_000
    customers_per_district: int = 3_000

    def __post_init__(self) -> None:
        """Refuse sizes that the transactions cannot run on.

        Raises:
            ValueError: a size is below its least.
        """
        for name, least in (("warehouses", 1), ("items", 15), ("customers_per_district", 10)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} is {value}: it must be at least {least}")

    @property
    def last_names(self) -> int:
        """Distinct last names in a district; every one of them has a customer (clause 4.3.3.1)."""
        return min(MAX_LAST_NAMES, self.customers_per_district)

    @property
    def first_undelivered_order(self) -> int:
        """Least O_ID that has a NEW-ORDER row at the start: 2101 of 3000 (clause 4.3.3.1)."""
        return self.customers_per_district * 7 // 10 + 1
