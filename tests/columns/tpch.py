"""The expressions of TPC-H's 22 queries, and of Nexmark's, that are computed row by row.

Of each query the conditions and the columns that its steps would compute: filters of one table,
what ``CASE`` and arithmetic make under an aggregate, and what is computed of its results. Joins,
``EXISTS`` and subqueries are steps, no expressions; that a column equals another is of a join.
The results of aggregates stand as columns of the types that Spark gives them.
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["NEXMARK", "NEXMARK_ROWS", "TPCH", "TPCH_ROWS"]

MONEY = pa.decimal128(15, 2)
TPCH_ROWS = pa.schema(
    {
        **{f"l_{name}": MONEY for name in ("quantity", "extendedprice", "discount", "tax")},
        **{f"l_{name}date": pa.date32() for name in ("ship", "commit", "receipt")},
        **dict.fromkeys(("l_returnflag", "l_linestatus", "l_shipmode"), pa.string()),
        "l_shipinstruct": pa.string(),
        "o_orderdate": pa.date32(),
        "o_orderstatus": pa.string(),
        "o_orderpriority": pa.string(),
        "o_comment": pa.string(),
        "o_totalprice": MONEY,
        "p_type": pa.string(),
        "p_name": pa.string(),
        "p_brand": pa.string(),
        "p_container": pa.string(),
        "p_size": pa.int32(),
        "ps_supplycost": MONEY,
        "ps_availqty": pa.int32(),
        "s_comment": pa.string(),
        "c_mktsegment": pa.string(),
        "c_phone": pa.string(),
        "c_acctbal": MONEY,
        "n_name": pa.string(),
        "n1_name": pa.string(),
        "n2_name": pa.string(),
        "r_name": pa.string(),
        "sum_quantity": pa.decimal128(25, 2),
        "avg_quantity": pa.decimal128(19, 6),
        "sum_volume": pa.decimal128(38, 4),
        "sum_case": pa.decimal128(38, 4),
        "sum_price": pa.decimal128(25, 2),
        "sum_value": pa.decimal128(36, 2),
        "supplier_cnt": pa.int64(),
        "avg_acctbal": pa.decimal128(19, 6),
    }
)
TPCH: dict[int, tuple[str, ...]] = {
    1: (
        "l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY",
        "l_extendedprice * (1 - l_discount)",
        "l_extendedprice * (1 - l_discount) * (1 + l_tax)",
    ),
    2: ("p_size = 15", "p_type LIKE '%BRASS'", "r_name = 'EUROPE'"),
    3: (
        "c_mktsegment = 'BUILDING'",
        "o_orderdate < DATE '1995-03-15'",
        "l_shipdate > DATE '1995-03-15'",
        "l_extendedprice * (1 - l_discount)",
    ),
    4: (
        "o_orderdate >= DATE '1993-07-01'",
        "o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH",
        "l_commitdate < l_receiptdate",
    ),
    5: (
        "r_name = 'ASIA'",
        "o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "l_extendedprice * (1 - l_discount)",
    ),
    6: (
        "l_shipdate >= DATE '1994-01-01'",
        "l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
        "l_quantity < 24",
        "l_extendedprice * l_discount",
    ),
    7: (
        (
            "(n1_name = 'FRANCE' AND n2_name = 'GERMANY') "
            "OR (n1_name = 'GERMANY' AND n2_name = 'FRANCE')"
        ),
        "l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'",
        "extract(year FROM l_shipdate)",
        "l_extendedprice * (1 - l_discount)",
    ),
    8: (
        "r_name = 'AMERICA'",
        "o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'",
        "p_type = 'ECONOMY ANODIZED STEEL'",
        "extract(year FROM o_orderdate)",
        "l_extendedprice * (1 - l_discount)",
        "CASE WHEN n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END",
        "sum_case / sum_volume",
    ),
    9: (
        "p_name LIKE '%green%'",
        "extract(year FROM o_orderdate)",
        "l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity",
    ),
    10: (
        "o_orderdate >= DATE '1993-10-01'",
        "o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH",
        "l_returnflag = 'R'",
        "l_extendedprice * (1 - l_discount)",
    ),
    11: (
        "n_name = 'GERMANY'",
        "ps_supplycost * ps_availqty",
        "sum_value * 0.0001",
    ),
    12: (
        "l_shipmode IN ('MAIL', 'SHIP')",
        "l_commitdate < l_receiptdate AND l_shipdate < l_commitdate",
        "l_receiptdate >= DATE '1994-01-01'",
        "l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END",
        "CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END",
    ),
    13: ("o_comment NOT LIKE '%special%requests%'",),
    14: (
        "l_shipdate >= DATE '1995-09-01'",
        "l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH",
        "CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END",
        "l_extendedprice * (1 - l_discount)",
        "100.00 * sum_case / sum_volume",
    ),
    15: (
        "l_shipdate >= DATE '1996-01-01'",
        "l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH",
        "l_extendedprice * (1 - l_discount)",
    ),
    16: (
        "p_brand <> 'Brand#45'",
        "p_type NOT LIKE 'MEDIUM POLISHED%'",
        "p_size IN (49, 14, 23, 45, 19, 3, 36, 9)",
        "s_comment LIKE '%Customer%Complaints%'",
    ),
    17: (
        "p_brand = 'Brand#23' AND p_container = 'MED BOX'",
        "0.2 * avg_quantity",
        "l_quantity < 0.2 * avg_quantity",
        "sum_price / 7.0",
    ),
    18: ("sum_quantity > 300",),
    19: (
        (
            "p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') "
            "AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5 "
            "AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'"
        ),
        "p_brand = 'Brand#23' AND l_quantity >= 10 AND l_quantity <= 10 + 10",
        "l_extendedprice * (1 - l_discount)",
    ),
    20: (
        "p_name LIKE 'forest%'",
        "l_shipdate >= DATE '1994-01-01'",
        "l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR",
        "0.5 * sum_quantity",
        "ps_availqty > 0.5 * sum_quantity",
        "n_name = 'CANADA'",
    ),
    21: ("o_orderstatus = 'F'", "l_receiptdate > l_commitdate", "n_name = 'SAUDI ARABIA'"),
    22: (
        "substring(c_phone FROM 1 FOR 2)",
        "substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')",
        "c_acctbal > 0.00",
        "c_acctbal > avg_acctbal",
    ),
}

NEXMARK_ROWS = pa.schema(
    {
        **dict.fromkeys(("auction", "bidder", "price", "category", "id", "seller"), pa.int64()),
        **dict.fromkeys(("channel", "url", "state", "extra"), pa.string()),
        **dict.fromkeys(("date_time", "expires", "bid_time"), pa.timestamp("us", "UTC")),
    }
)
NEXMARK: dict[str, tuple[str, ...]] = {
    "q1": ("0.908 * price",),
    "q2": ("auction % 123 = 0",),
    "q3": ("category = 10", "lower(state) IN ('or', 'id', 'ca')"),
    "q4": ("bid_time BETWEEN date_time AND expires",),
    "q10": ("date_format(date_time, 'yyyy-MM-dd')", "date_format(date_time, 'HH:mm')"),
    "q14": (
        "0.908 * price",
        (
            "CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime' "
            "WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' "
            "ELSE 'otherTime' END"
        ),
        "length(extra) - length(replace(extra, 'c', ''))",
        "0.908 * price > 1000000 AND 0.908 * price < 50000000",
    ),
    "q15": (
        "to_date(date_time)",
        "CASE WHEN price < 10000 THEN price END",
        "CASE WHEN price >= 10000 AND price < 1000000 THEN price END",
    ),
    "q16": ("date_format(date_time, 'HH:mm')",),
    "q21": (
        (
            "CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' "
            "ELSE regexp_extract(url, '[&?]channel_id=([^&]*)', 1) END"
        ),
        "nullif(regexp_extract(url, '[&?]channel_id=([^&]*)', 1), '') IS NOT NULL",
        "lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
    ),
    "q22": ("split_part(url, '/', 4)", "split(url, '/')[4]"),
}
