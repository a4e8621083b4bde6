SELECT category, avg(final)
FROM (
    SELECT max(b.price) AS final, a.category
    FROM auction AS a JOIN bid AS b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires
    GROUP BY a.id, a.category
)
GROUP BY category
ORDER BY 2 DESC, 1
LIMIT 3
