SELECT seller, avg(final) OVER (
    PARTITION BY seller ORDER BY bid_time, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
)
FROM (
    SELECT a.seller, a.id, b.price AS final, b.date_time AS bid_time
    FROM auction AS a JOIN bid AS b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) = 1
)
