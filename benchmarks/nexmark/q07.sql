-- Highest bid: the bids with the highest price of each ten seconds.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND)) AS b
JOIN (
    SELECT window_start, window_end, MAX(price) AS price
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) AS m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.price
