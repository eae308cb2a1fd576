"""Star Schema Benchmark: its tables, their sizes and their values.

O'Neil, O'Neil & Chen, "Star Schema Benchmark", revision 3 (2009), sections 2 and 3, and what the
program dbgen does where the text leaves it open.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from math import floor, log2

FIRST_DAY = datetime.date(1992, 1, 1)
DAYS = 2557
"""Days of DATE: seven years with two leap days. The specification's 2,556 counts one of them."""
ORDER_DAYS = 2406
"""Days on which orders are placed: 1992-01-01 to 1998-08-02, as dbgen has it (151 before the
end)."""
MOST_LINES = 7
"""Lines of an order are 1 to 7, each number equally likely."""
ORDERS_PER_SCALE = 1_500_000
CUSTOMERS_PER_SCALE = 30_000
SUPPLIERS_PER_SCALE = 2_000
PARTS = 200_000
CUSTOMER_MORTALITY = 3
"""One of so many customers never orders (dbgen's CUST_MORTALITY)."""
CITIES_PER_NATION = 10
CITY_CHARS = 9
BRANDS_PER_CATEGORY = 40
CATEGORIES_PER_MFGR = 5
MFGRS = 5

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
)
"""Nations, each with the place of its region in `REGIONS`."""
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
SHIP_MODES = ("REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
COLOURS = (
    *("almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue"),
    *("blush", "brown", "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral"),
    *("cornflower", "cornsilk", "cream", "cyan", "dark", "deep", "dim", "dodger", "drab"),
    *("firebrick", "floral", "forest", "frosted", "gainsboro", "ghost", "goldenrod", "green"),
    *("grey", "honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender", "lawn", "lemon"),
    *("light", "lime", "linen", "magenta", "maroon", "medium", "metallic", "midnight", "mint"),
    *("misty", "moccasin", "navajo", "navy", "olive", "orange", "orchid", "pale", "papaya"),
    *("peach", "peru", "pink", "plum", "powder", "puff", "purple", "red", "rose", "rosy"),
    *("royal", "saddle", "salmon", "sandy", "seashell", "sienna", "sky", "slate", "smoke"),
    *("snow", "spring", "steel", "tan", "thistle", "tomato", "turquoise", "violet", "wheat"),
    *("white", "yellow"),
)
TYPES = tuple(
    f"{size} {finish} {metal}"
    for size in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for finish in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for metal in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
)
CONTAINERS = tuple(
    f"{size} {form}"
    for size in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for form in ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SEASONS = (
    ("Christmas", (11, 1), (12, 31)),
    ("Winter", (1, 1), (3, 31)),
    ("Spring", (4, 1), (4, 30)),
    ("Summer", (5, 1), (8, 31)),
    ("Fall", (9, 1), (10, 31)),
)
HOLIDAYS = (
    *((12, 24), (1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20)),
)
"""Months and days of dbgen's ten holidays."""


@dataclass(frozen=True)
class Sizes:
    """Rows of the tables at a scale factor.

    LINEORDER has 1 to 7 rows for each order, 4 in the mean.
    """

    orders: int
    customers: int
    suppliers: int
    parts: int
    days: int = DAYS


def sizes(scale: float) -> Sizes:
    """Give the rows of the tables at a scale factor above 0.

    From 1 on as the specification says. Below 1, which it does not know, ORDERS, CUSTOMER, SUPPLIER
    and PART are cut in proportion, and DATE is whole.
    """
    parts = PARTS * (1 + floor(log2(scale))) if scale >= 1 else PARTS * scale
    return Sizes(
        *(
            max(round(rows), 10)
            for rows in (
                ORDERS_PER_SCALE * scale,
                CUSTOMERS_PER_SCALE * scale,
                SUPPLIERS_PER_SCALE * scale,
                parts,
            )
        )
    )


def cities() -> list[str]:
    """Give the cities in the order of nations: nine characters of the nation, then a digit."""
    return [
        f"{nation[:CITY_CHARS]:{CITY_CHARS}}{digit}"
        for nation, _ in NATIONS
        for digit in range(CITIES_PER_NATION)
    ]


def brands() -> list[str]:
    """Give the brands in the order of manufacturer, category and number (`MFGR#2221`).

    The number has no leading zeros, as dbgen prints it.
    """
    return [
        f"MFGR#{mfgr}{category}{brand}"
        for mfgr in range(1, MFGRS + 1)
        for category in range(1, CATEGORIES_PER_MFGR + 1)
        for brand in range(1, BRANDS_PER_CATEGORY + 1)
    ]
