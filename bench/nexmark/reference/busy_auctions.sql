SELECT auction, count(*)
FROM bid
GROUP BY auction
HAVING count(*) > (SELECT count(*) / count(DISTINCT auction) FROM bid)
