SELECT
    auction,
    bidder,
    price,
    channel,
    CASE
        WHEN channel ILIKE 'apple' THEN '0'
        WHEN channel ILIKE 'google' THEN '1'
        WHEN channel ILIKE 'facebook' THEN '2'
        WHEN channel ILIKE 'baidu' THEN '3'
        ELSE split_part(split_part(url, 'channel_id=', 2), '&', 1)
    END AS channel_id
FROM bid
WHERE url LIKE '%channel_id=%' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
