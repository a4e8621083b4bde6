"""The queries in Spark SQL, as Structured Streaming can run them.

Each was first tried as it is published. Where Spark 4.3 refuses that, :attr:`PeerQuery.refused` is
its own message and :attr:`PeerQuery.way` what is run instead: what a user would take, without
Python, and where there is a choice, what is faster for the peer.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PEER_QUERIES", "PeerQuery"]

_CHAINED = (
    "Detected pattern of possible 'correctness' issue due to global watermark. The query contains "
    "stateful operation which can emit rows older than the current watermark plus allowed late "
    'record delay, which are "late rows" in downstream stateful operations and these rows can be '
    "discarded."
)
_DISTINCT = (
    "Distinct aggregations are not supported on streaming DataFrames/Datasets. Consider using "
    "approx_count_distinct() instead."
)
_ROW_NUMBER = (
    "[NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING] Window function is not supported in ROW_NUMBER() "
    "(as column `n`) on streaming DataFrames/Datasets."
)
_SESSION_UPDATE = (
    "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: update. This "
    "output mode is not supported for session window streaming aggregations on streaming "
    "DataFrames/DataSets."
)
_APPEND = "append mode: a window's result comes once, when the watermark has closed it"
_APPROXIMATE = "approx_count_distinct: estimates instead of exact distinct counts"
_DAY = "date_format(date_time, 'yyyy-MM-dd')"
_DAYS = "SELECT count(DISTINCT ({}, date_trunc('day', date_time))) FROM bid"
_PLACED = (
    "auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerQuery:
    """One query.

    Attributes:
        sql: Over the streams ``person``, ``auction`` and ``bid``.
        mode: Its output mode.
        watermark: How late event times may be, where it needs to know; nothing may be later.
        way: How it differs from the published query; empty when it does not.
        refused: What Spark says to the published query in the mode of Atoll's results.
        state_rows: In DuckDB's SQL, how many rows the state of its last step has in the end.
    """

    sql: str
    mode: str = "append"
    watermark: str = ""
    way: str = ""
    refused: str = ""
    state_rows: str = ""


def _ranks(what: str, name: str) -> str:
    """An aggregate of all bids and of those of each rank by price."""
    return (
        f"{what} AS {name}, "
        f"{what} FILTER (WHERE price < 10000) AS {name}_rank1, "
        f"{what} FILTER (WHERE price >= 10000 AND price < 1000000) AS {name}_rank2, "
        f"{what} FILTER (WHERE price >= 1000000) AS {name}_rank3"
    )


_STATISTICS = ", ".join(
    [
        _ranks("count(*)", "bids"),
        _ranks("approx_count_distinct(bidder)", "bidders"),
        _ranks("approx_count_distinct(auction)", "auctions"),
    ]
)

PEER_QUERIES = {
    "q0": PeerQuery(sql="SELECT auction, bidder, price, date_time FROM bid"),
    "q1": PeerQuery(sql="SELECT auction, bidder, 0.908 * price AS price, date_time FROM bid"),
    "q2": PeerQuery(sql="SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": PeerQuery(
        sql="""
            SELECT p.name, p.city, p.state, a.id
            FROM auction a JOIN person p ON a.seller = p.id
            WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')"""
    ),
    "q4": PeerQuery(
        sql=f"SELECT a.id, a.category, max(b.price) AS final FROM {_PLACED}"
        " GROUP BY a.id, a.category",
        mode="update",
        way="ends with the maximum per auction: the average of them is left out",
        refused=_CHAINED,
        state_rows=f"SELECT count(DISTINCT a.id) FROM {_PLACED}",
    ),
    "q5": PeerQuery(
        sql="""
            SELECT window, max_by(auction, num) AS auction, max(num) AS num
            FROM (
                SELECT window, auction, count(*) AS num
                FROM bid GROUP BY window(date_time, '10 seconds', '2 seconds'), auction)
            GROUP BY window""",
        watermark="10 seconds",
        way=f"{_APPEND}; of several hottest auctions, one",
        refused=_CHAINED,
    ),
    "q6": PeerQuery(
        sql=f"SELECT a.id, max_by(struct(a.seller, b.price), struct(b.price,"
        f" -unix_micros(b.date_time))) AS final FROM {_PLACED} GROUP BY a.id",
        mode="update",
        way="ends with the winning bid per auction: the average over a seller's last ones is left"
        " out",
        refused=_ROW_NUMBER,
        state_rows=f"SELECT count(DISTINCT a.id) FROM {_PLACED}",
    ),
    "q7": PeerQuery(
        sql="""
            SELECT window, max(struct(price, auction, bidder, date_time)) AS highest
            FROM bid GROUP BY window(date_time, '10 seconds')""",
        mode="update",
        way="of several highest bids, one",
        refused=_CHAINED,
        state_rows="SELECT count(DISTINCT epoch_us(date_time) // 10000000) FROM bid",
    ),
    "q8": PeerQuery(
        sql="""
            SELECT p.id, p.name, p.period
            FROM (
                SELECT id, name, window AS period
                FROM person GROUP BY id, name, window(date_time, '10 seconds')) p
            JOIN (
                SELECT seller, window AS period
                FROM auction GROUP BY seller, window(date_time, '10 seconds')) a
            ON p.id = a.seller AND p.period = a.period""",
        watermark="10 seconds",
        way=_APPEND,
        refused=_CHAINED,
    ),
    "q9": PeerQuery(
        sql=f"""
            SELECT a.id, max_by(
                struct(a.*, b.auction, b.bidder, b.price, b.date_time AS bid_time),
                struct(b.price, -unix_micros(b.date_time), -b.bidder)) AS won
            FROM {_PLACED} GROUP BY a.id""",
        mode="update",
        way="max_by instead of row_number",
        refused=_ROW_NUMBER,
        state_rows=f"SELECT count(DISTINCT a.id) FROM {_PLACED}",
    ),
    "q11": PeerQuery(
        sql="""
            SELECT bidder, count(*) AS bids, session_window.start, session_window.end
            FROM bid GROUP BY bidder, session_window(date_time, '10 seconds')""",
        watermark="10 seconds",
        way=_APPEND.replace("window", "session"),
        refused=_SESSION_UPDATE,
    ),
    "q12": PeerQuery(
        sql="""
            SELECT bidder, period, count(*) AS bids
            FROM (SELECT bidder, window(current_timestamp(), '10 seconds') AS period FROM bid)
            GROUP BY bidder, period""",
        mode="update",
    ),
    "q10": PeerQuery(
        sql=f"""
            SELECT auction, bidder, price, date_time, {_DAY} AS day,
                date_format(date_time, 'HH:mm') AS minute
            FROM bid"""
    ),
    "q13": PeerQuery(
        sql="""
            SELECT b.auction, b.bidder, b.price, b.date_time, s.value
            FROM bid b JOIN (SELECT id AS key, string(id) AS value FROM range(10000)) s
                ON b.auction % 10000 = s.key"""
    ),
    "q14": PeerQuery(
        sql="""
            SELECT auction, bidder, 0.908 * price AS price,
                CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
                    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
                    ELSE 'otherTime' END AS bid_time_type,
                date_time, length(url) - length(replace(url, 'c', '')) AS c_counts
            FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""
    ),
    "q15": PeerQuery(
        sql=f"SELECT {_DAY} AS day, {_STATISTICS} FROM bid GROUP BY {_DAY}",
        mode="update",
        way=_APPROXIMATE,
        refused=_DISTINCT,
        state_rows=_DAYS.format("0"),
    ),
    "q16": PeerQuery(
        sql=f"SELECT channel, {_DAY} AS day, max(date_format(date_time, 'HH:mm')) AS minute,"
        f" {_STATISTICS} FROM bid GROUP BY channel, {_DAY}",
        mode="update",
        way=_APPROXIMATE,
        refused=_DISTINCT,
        state_rows=_DAYS.format("channel"),
    ),
    "q17": PeerQuery(
        sql=f"SELECT auction, {_DAY} AS day, {_ranks('count(*)', 'bids')}, min(price) AS min_price,"
        " max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price"
        f" FROM bid GROUP BY auction, {_DAY}",
        mode="update",
        state_rows=_DAYS.format("auction"),
    ),
    "q18": PeerQuery(
        sql="SELECT bidder, auction, max_by(struct(*), date_time) AS newest"
        " FROM bid GROUP BY bidder, auction",
        mode="update",
        way="max_by instead of row_number",
        refused=_ROW_NUMBER,
        state_rows="SELECT count(DISTINCT (bidder, auction)) FROM bid",
    ),
    "q19": PeerQuery(
        sql="SELECT auction, max_by(struct(*), struct(price, -unix_micros(date_time), -bidder), 10)"
        " AS top FROM bid GROUP BY auction",
        mode="update",
        way="max_by of ten instead of row_number",
        refused=_ROW_NUMBER,
        state_rows="SELECT count(DISTINCT auction) FROM bid",
    ),
    "q20": PeerQuery(
        sql="""
            SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_time,
                a.item_name, a.description, a.initial_bid, a.reserve,
                a.date_time AS auction_time, a.expires, a.seller, a.category
            FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10"""
    ),
    "q21": PeerQuery(
        sql=r"""
            SELECT * FROM (
                SELECT auction, bidder, price, channel,
                    CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                        WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                        ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
                FROM bid)
            WHERE channel_id != ''"""
    ),
    "q22": PeerQuery(
        sql="""
            SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
                split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
            FROM bid"""
    ),
}
