WITH counted AS (
    SELECT auction, starts.start_time, count(*) AS num
    FROM bid, LATERAL (
        SELECT time_bucket(INTERVAL 2 SECONDS, date_time) - INTERVAL 2 SECONDS * step AS start_time
        FROM range(5) AS steps (step)
    ) AS starts
    GROUP BY ALL
)
SELECT auction, num FROM counted
QUALIFY num = max(num) OVER (PARTITION BY start_time)
