-- Top ten: the ten highest bids of each auction. Runs bounded.
SELECT auction, bidder, price, channel, url, date_time, extra,
    ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder) AS rank_number
FROM bid
QUALIFY rank_number <= 10
