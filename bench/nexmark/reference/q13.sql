SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid AS b
JOIN (SELECT range AS key, CAST(range AS varchar) AS value FROM range(10000)) AS s
    ON b.auction % 10000 = s.key
