SELECT
    auction,
    row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder) AS rank,
    price,
    date_time,
    bidder
FROM bid
QUALIFY rank <= 10
