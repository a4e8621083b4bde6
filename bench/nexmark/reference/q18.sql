SELECT bidder, auction, date_time, price, channel, url FROM bid
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) = 1
