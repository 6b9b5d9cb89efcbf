-- As q19, the ten highest of each ten seconds.
SELECT auction, bidder, price, channel, url, date_time, extra, window_end,
    ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction ORDER BY price DESC, date_time, bidder) AS rank_number
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
QUALIFY rank_number <= 10
