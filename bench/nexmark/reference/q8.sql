SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECONDS, p.date_time)
FROM person AS p JOIN auction AS a ON p.id = a.seller
WHERE time_bucket(INTERVAL 10 SECONDS, p.date_time) = time_bucket(INTERVAL 10 SECONDS, a.date_time)
