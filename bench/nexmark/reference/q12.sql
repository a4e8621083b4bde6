SELECT
    bidder,
    count(*) AS bid_count,
    time_bucket(INTERVAL 10 SECONDS, processed_at) AS start_time,
    start_time + INTERVAL 10 SECONDS AS end_time
FROM bid_processed
GROUP BY bidder, start_time
