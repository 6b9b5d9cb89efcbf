-- As q18, the latest of each ten seconds.
SELECT auction, bidder, price, channel, url, date_time, extra, window_end
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
QUALIFY ROW_NUMBER() OVER (
    PARTITION BY window_start, window_end, bidder, auction ORDER BY date_time DESC, price DESC, extra DESC
) = 1
