SELECT a.id, b.date_time, b.bidder, b.price, b.channel, b.url, a.* EXCLUDE (id)
FROM auction AS a JOIN bid AS b ON a.id = b.auction
WHERE b.date_time BETWEEN a.date_time AND a.expires
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1
