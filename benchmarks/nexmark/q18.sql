-- Last bid: of each person on each auction, the latest. Runs bounded.
SELECT auction, bidder, price, channel, url, date_time, extra
FROM bid
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price DESC, extra DESC) = 1
