-- Winning bids: the highest bid of each auction's time. The time of an auction is in its row, so the join has no fixed bound:
-- bounded.
SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra,
    b.auction, b.bidder, b.price, b.date_time AS bid_time, b.extra AS bid_extra
FROM auction AS a
JOIN bid AS b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) = 1
