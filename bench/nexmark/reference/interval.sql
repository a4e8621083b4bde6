SELECT a.id, a.seller, b.bidder, b.price, b.date_time
FROM auction AS a JOIN bid AS b ON a.id = b.auction
WHERE b.date_time BETWEEN a.date_time AND a.date_time + INTERVAL 10 MINUTES
