SELECT auction, price, bidder, date_time FROM bid
QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL 10 SECONDS, date_time))
