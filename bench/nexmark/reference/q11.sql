WITH timed AS (
    SELECT bidder, date_trunc('milliseconds', date_time) AS date_time FROM bid
),
begun AS (
    SELECT
        *,
        date_time >= lag(date_time) OVER ordered + INTERVAL 10 SECONDS AS begins
    FROM timed
    WINDOW ordered AS (PARTITION BY bidder ORDER BY date_time)
),
numbered AS (
    SELECT *, count(*) FILTER (begins) OVER (PARTITION BY bidder ORDER BY date_time) AS session
    FROM begun
)
SELECT bidder, count(*), min(date_time), max(date_time) + INTERVAL 10 SECONDS
FROM numbered
GROUP BY bidder, session
