-- Hot items: the auctions with the most bids of the last ten seconds, every two seconds.
WITH counted AS (
    SELECT auction, window_start, window_end, COUNT(*) AS num
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '10' SECOND, INTERVAL '2' SECOND))
    GROUP BY auction, window_start, window_end
), most AS (
    SELECT window_start, window_end, MAX(num) AS num
    FROM counted
    GROUP BY window_start, window_end
)
SELECT c.window_start, c.window_end, c.auction, c.num
FROM counted AS c
JOIN most AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.num
